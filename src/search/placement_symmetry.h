/*!
 * \file search/placement_symmetry.h
 * \brief What can change places, so that of like placements and orders one is looked at.
 *
 * Elements of a batch: permutations of the parts of a division, each of which leaves the problem as
 * it is; with the identity they are a group. Devices: each that can be exchanged for one before it
 * is used after that one.
 */
#ifndef TVM_HETERO_SEARCH_PLACEMENT_SYMMETRY_H_
#define TVM_HETERO_SEARCH_PLACEMENT_SYMMETRY_H_

#include <tvm_hetero/search.h>

#include <vector>

#include "search/activities.h"
#include "search/problem.h"

namespace tvm_hetero::search {

class PlacementSymmetry {
 public:
  /*! \brief Throws std::invalid_argument if a permutation or device is none. */
  PlacementSymmetry(const Problem& problem, const TvmHeteroSearchSymmetry& symmetry);

  /*! \brief Whether a device may have its turn, given how many parts each device has. */
  bool MayUse(int device, const std::vector<int>& uses) const {
    return before_[device] < 0 || uses[device] > 0 || uses[before_[device]] > 0;
  }
  /*!
   * \brief Whether no permutation makes an earlier placement of what is placed.
   * \param place the device of each part; -1 of those after `depth` in topological order.
   */
  bool Canonical(const std::vector<int>& place, int depth) const;
  /*! \brief Of like parts on one device let the first go first. */
  void OrderLikeParts(const std::vector<int>& place, Activities* activities) const;

 private:
  const Problem& problem_;
  std::vector<std::vector<int>> images_;  //!< the part that each part becomes
  std::vector<int> before_;               //!< the device that must be in use before, or -1
};

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_PLACEMENT_SYMMETRY_H_
