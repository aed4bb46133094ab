/*!
 * \file search/stop.h
 * \brief Whether all searches of this process are to end now, with the best that they have.
 *
 * Set from any thread (tvm_hetero_search_stop), looked at wherever a search looks at the clock.
 */
#ifndef TVM_HETERO_SEARCH_STOP_H_
#define TVM_HETERO_SEARCH_STOP_H_

#include <atomic>

namespace tvm_hetero::search {

inline std::atomic<bool>& Stopped() {
  static std::atomic<bool> stopped{false};
  return stopped;
}

inline bool IsStopped() { return Stopped().load(std::memory_order_relaxed); }

}  // namespace tvm_hetero::search

#endif  // TVM_HETERO_SEARCH_STOP_H_
