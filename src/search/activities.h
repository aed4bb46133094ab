/*!
 * \file search/activities.h
 * \brief What a placement makes happen: executions, hops, what waits for what, what lies where.
 *
 * The activities of a placement are its executions (numbers 0 .. parts - 1, one a part) and, after
 * them, the hops of its tensors, each once. An activity starts when all in `before` have ended and
 * every resource that it keeps busy is free. A *stay* is a tensor in a memory that can be too small
 * (a device's own, or that of the teams of a node, in which a tensor lies once): it begins when the first of its openers starts, and ends when the last of its closers
 * has ended; without closers it ends with the schedule. (As in tvm_hetero/solvers/timing/timing.py.)
 */
#ifndef TVM_HETERO_SEARCH_ACTIVITIES_H_
#define TVM_HETERO_SEARCH_ACTIVITIES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "search/problem.h"

namespace tvm_hetero::search {

/*! \brief Bytes in a memory, from the start of the first opener to the end of all closers. */
struct Stay {
  int memory;  //!< the device that names it
  int64_t bytes;
  std::vector<int> openers, closers;
};

/*! \brief One copy of a tensor over a link. */
struct PlacedHop {
  int tensor, from, to;
};

class Activities {
 public:
  explicit Activities(const Problem& problem) : problem_(problem) {}

  /*! \brief List what a placement makes happen; false if some tensor cannot reach a reader. */
  bool Lay(const std::vector<int>& placement);

  /*!
   * \brief Let `first` of two like executions on one device be the one that goes first.
   * To be called before Finish.
   */
  void PutBefore(int first, int second) { Wait(second, first); }

  /*! \brief Work out order, tails and loads; to be called once all waits are known. */
  void Finish();

  /*! \brief Whether every device holds all that is ever on it, weights included, at once. */
  bool EverythingFits() const;
  /*! \brief Whether weights fit, and whatever takes time fits beside what it reads and writes. */
  bool EachFits() const;

  int count() const { return static_cast<int>(seconds.size()); }

  std::vector<double> seconds;
  std::vector<std::vector<int>> before, after;
  std::vector<std::vector<int>> resources;
  std::vector<PlacedHop> hops;
  std::vector<Stay> stays;
  std::vector<int64_t> weights;  //!< in a memory; only where it can be too small
  std::vector<int> order;        //!< topological
  std::vector<double> tails;     //!< longest chain that begins with each activity, s
  std::vector<double> loads;     //!< work on each resource, s
  bool instant = false;          //!< whether some activity takes no time

 private:
  void AddExecutions(const std::vector<int>& placement);
  bool AddTensor(int tensor, const std::vector<int>& placement);
  int AddHop(int tensor, int from, int to);
  Stay* StayOn(int device, int64_t bytes, size_t first);
  void Wait(int activity, int other);

  const Problem& problem_;
};

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_ACTIVITIES_H_
