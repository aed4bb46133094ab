/*!
 * \file executor/step_log.h
 * \brief The last requests that have ended, and what each step of them took, for who watches.
 *
 * Off unless somebody asks (Watch). Of more requests than there is room for, the oldest go.
 */
#ifndef TVM_HETERO_EXECUTOR_STEP_LOG_H_
#define TVM_HETERO_EXECUTOR_STEP_LOG_H_

#include <tvm/ffi/container/tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "executor/state.h"

namespace tvm_hetero {

/*! \brief Safe for any threads. */
class StepLog {
 public:
  /*! \brief Numbers that a request has before those of its steps: when it began, and when it ended. */
  static constexpr int64_t kOfRequest = 2;
  /*! \brief Numbers of a step, in the order of Span. */
  static constexpr int64_t kOfStep = 6;

  /*! \param epoch To what the times are relative that it is given. */
  StepLog(size_t steps, Clock::time_point epoch);

  /*! \brief Keep so many requests from now on; 0: none, and those that are kept go. */
  void Watch(size_t capacity);
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  /*! \brief Note a request that has ended. */
  void Add(double begun, double end, const std::vector<Span>& spans);
  /*! \brief What is kept, the oldest first, a row of float64 each, by Clock; and forget it. */
  ffi::Tensor Take();

 private:
  const size_t steps_;
  const double epoch_;  //!< s, by Clock
  std::atomic<bool> is_on_{false};
  std::mutex mutex_;
  size_t capacity_{0};
  std::deque<std::vector<double>> rows_;
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_STEP_LOG_H_
