/*!
 * \file executor_internal.h
 * \brief What executor.cc (runs) and executor_stream.cc (streams) share.
 */
#ifndef TVM_HETERO_EXECUTOR_INTERNAL_H_
#define TVM_HETERO_EXECUTOR_INTERNAL_H_

#include <tvm/ffi/error.h>
#include <tvm_hetero/executor.h>
#include <unistd.h>

#include <chrono>

#include "board.h"

namespace tvm_hetero {

//! How often a waiting run() looks for Ctrl-C.
constexpr std::chrono::milliseconds kSignalPeriod{100};

/*! \brief Holds the executor for one call; refuses a second thread, and a forked process. */
class Executor::Exclusive {
 public:
  enum class Of { kRun, kStream };

  explicit Exclusive(const Executor* executor, Of of = Of::kRun) : executor_(executor) {
    if (executor->Forked()) {
      TVM_FFI_THROW(RuntimeError) << "the executor was made in process " << executor->process_
                                  << " and its threads are not in this fork, " << getpid()
                                  << ": make the executor after forking, or spawn";
    }
    if (executor->busy_.exchange(true)) {
      TVM_FFI_THROW(RuntimeError) << "the executor is in use: another thread is in a run. Use one "
                                  << "executor a thread, or a lock around set_input, run and "
                                  << "get_output";
    }
    if (of == Of::kRun && executor->board_->streaming) {
      executor->busy_.store(false);
      TVM_FFI_THROW(RuntimeError) << "the executor is in use: a stream is open. Take all of its "
                                  << "outputs, or close it";
    }
  }
  ~Exclusive() { executor_->busy_.store(false); }

 private:
  const Executor* executor_;
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_INTERNAL_H_
