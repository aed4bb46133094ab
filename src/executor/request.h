/*!
 * \file executor/request.h
 * \brief One set of inputs on its way to its outputs, as its owner sees it.
 *
 * A request outlives the frame in which it is worked on: it is done at once when it is cancelled or
 * late, while a kernel of it may still be running, and its frame is free at once when it is through,
 * while its outputs may wait to be taken. It keeps its inputs until its owner lets go of it, so that
 * they are freed by the owner's thread and not by a worker (freeing an array of Python's takes
 * Python's lock).
 */
#ifndef TVM_HETERO_EXECUTOR_REQUEST_H_
#define TVM_HETERO_EXECUTOR_REQUEST_H_

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <optional>
#include <string>

namespace tvm_hetero {

namespace ffi = tvm::ffi;
using Clock = std::chrono::steady_clock;
using TimeLimit = std::optional<Clock::time_point>;

struct Frame;

/*! \brief Why a batch failed: a step, or (step < 0) its worker's end. */
struct StepError {
  int step;
  std::string message;
};

/*!
 * \brief All but what is constant is guarded by the lock of the desk; `done` may be looked at without
 *        it, by who takes the lock then.
 */
struct Request {
  Request(ffi::Array<ffi::Tensor> values, TimeLimit limit, bool is_notified)
      : inputs(std::move(values)), deadline(limit), notify(is_notified) {}

  const ffi::Array<ffi::Tensor> inputs;
  const TimeLimit deadline;
  const bool notify;                    //!< its end is told through RequestDesk::NextDone
  int64_t id{0};                        //!< 0: not in the desk's list
  Frame* frame{nullptr};                //!< null before it has begun, and when all have left it
  std::atomic<bool> done{false};
  double begun{0.0};                    //!< when it was given its frame, s since ExecutorState::epoch
  double end{0.0};                      //!< when it was done, likewise
  ffi::Array<ffi::Tensor> outputs;      //!< when done, unless it failed
  std::optional<std::string> failure;   //!< when done: what went wrong, its kind first
  std::condition_variable changed;      //!< `done` or `frame` has
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_REQUEST_H_
