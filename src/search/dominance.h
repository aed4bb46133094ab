/*!
 * \file search/dominance.h
 * \brief Partial schedules that are no better than others with the same activities.
 *
 * What can follow a partial schedule depends on which activities are placed and on a few times: from
 * when on each resource is free, when what is waited for ends, when memory is given back, when the
 * last activity ends. If with the same activities all of these are no later in another partial
 * schedule, whatever follows this one can follow that one at the same times.
 */
#ifndef TVM_HETERO_SEARCH_DOMINANCE_H_
#define TVM_HETERO_SEARCH_DOMINANCE_H_

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace tvm_hetero::search {

class Dominance {
 public:
  void Clear() {
    seen_.clear();
    count_ = 0;
  }

  /*!
   * \brief Whether a partial schedule with these activities and no later times has been seen.
   * If not, this one is remembered. Times of equal sets must be of one kind and length.
   */
  bool Dominated(uint64_t placed, const std::vector<double>& times);

 private:
  std::unordered_map<uint64_t, std::vector<std::vector<double>>> seen_;
  size_t count_ = 0;
};

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_DOMINANCE_H_
