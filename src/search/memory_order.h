/*!
 * \file search/memory_order.h
 * \brief Whether some order of what is left keeps the memory, whatever time it takes.
 *
 * Given a schedule, carry out its activities one after the other, in the order of their starts, of
 * equal starts those first that take no time. What then lies in a memory while an activity that takes
 * time is carried out lies there in the schedule, too, when that activity starts: it has been opened,
 * and some closer has not started before. So if no such order keeps the memory, no schedule does. Which
 * orders can follow depends on the set of what has been carried out alone, so each set is looked at
 * once.
 */
#ifndef TVM_HETERO_SEARCH_MEMORY_ORDER_H_
#define TVM_HETERO_SEARCH_MEMORY_ORDER_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "search/activities.h"
#include "search/problem.h"

namespace tvm_hetero::search {

class MemoryOrder {
 public:
  // Sets are bits of one word.
  static constexpr int kMost = 64;

  explicit MemoryOrder(const Problem& problem) : problem_(problem) {}

  /*! \brief Begin with the activities of a placement, at most kMost. */
  void Reset(const Activities& activities);

  /*! \brief Whether all that is not in `placed` can follow; true if that takes too long to say. */
  bool Completable(uint64_t placed);

 private:
  bool Fits(uint64_t placed, int next) const;

  struct Users {
    int memory;
    int64_t bytes;
    uint64_t openers, closers;
  };

  const Problem& problem_;
  const Activities* given_ = nullptr;
  std::vector<Users> stays_;
  std::vector<uint64_t> before_;
  std::unordered_map<uint64_t, bool> known_;
  uint64_t all_ = 0;
};

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_MEMORY_ORDER_H_
