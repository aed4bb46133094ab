#include "executor/parallel_loops.h"

#include <tvm/ffi/c_api.h>
#include <tvm/ffi/function.h>

#include "support/kernel_context.h"

namespace tvm_hetero {
namespace {

thread_local LoopRunner* runner_of_thread = nullptr;
thread_local bool is_ours = false;  // whether the thread's loops are ours to run

/*! \brief Wait for all other pieces: possible only where each piece has a thread. */
int MeetInLoop(int piece, ParallelEnvironment* environment) noexcept {
  using Function = int (*)(int, ParallelEnvironment*);
  static const auto tvms = reinterpret_cast<Function>(FunctionOfTvm("TVMBackendParallelBarrier"));
  if (!is_ours && tvms != nullptr) return tvms(piece, environment);
  TVMFFIErrorSetRaisedFromCStr("RuntimeError",
                               "a kernel has a barrier in a parallel loop, which is not supported");
  return -1;
}

}  // namespace

LoopsOfThread::LoopsOfThread(LoopRunner* runner) : outer_runner_(runner_of_thread), outer_is_ours_(is_ours) {
  runner_of_thread = runner;
  is_ours = true;
}

LoopsOfThread::~LoopsOfThread() {
  runner_of_thread = outer_runner_;
  is_ours = outer_is_ours_;
}

int LaunchParallelLoop(ParallelLoop loop, void* data, int pieces) noexcept {
  if (runner_of_thread != nullptr) return runner_of_thread->Run(loop, data, pieces);
  if (!is_ours) {
    using Function = decltype(&LaunchParallelLoop);
    static const auto tvms = reinterpret_cast<Function>(FunctionOfTvm("TVMBackendParallelLaunch"));
    if (tvms != nullptr) return tvms(loop, data, pieces);
  }
  ParallelEnvironment alone{nullptr, 1};
  return loop(0, &alone, data);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  OfferToKernels("__TVMBackendParallelLaunch", reinterpret_cast<void*>(LaunchParallelLoop));
  OfferToKernels("__TVMBackendParallelBarrier", reinterpret_cast<void*>(MeetInLoop));
}

}  // namespace tvm_hetero
