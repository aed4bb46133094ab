/*!
 * \file executor/parallel_loops.h
 * \brief Who runs a kernel's parallel loops: the team of the worker that runs the kernel.
 *
 * Kernels call a function of the runtime with such a loop (TVMBackendParallelLaunch); ours is put in
 * its place as libraries are loaded (support/kernel_context.h). On a thread without a team of ours
 * it is TVM's, with TVM's threads, and where TVM's runtime is not loaded one piece is all.
 */
#ifndef TVM_HETERO_EXECUTOR_PARALLEL_LOOPS_H_
#define TVM_HETERO_EXECUTOR_PARALLEL_LOOPS_H_

#include <cstdint>

namespace tvm_hetero {

/*! \brief What a piece is told of its loop; TVM's TVMParallelGroupEnv. */
struct ParallelEnvironment {
  void* sync_handle;  //!< of barriers, which we do not have
  int32_t pieces;
};

/*! \brief A parallel loop; TVM's FTVMParallelLambda. */
using ParallelLoop = int (*)(int piece, ParallelEnvironment* environment, void* data);

/*! \brief Who runs loops: the team of a worker. */
class LoopRunner {
 public:
  virtual ~LoopRunner() = default;

  /*!
   * \brief Run all pieces of a loop.
   * \param pieces How many, or 0: as suits.
   * \return 0, or -1: a piece failed, and its error is the calling thread's raised one.
   */
  virtual int Run(ParallelLoop loop, void* data, int pieces) noexcept = 0;
};

/*! \brief While it lives, parallel loops of the calling thread are somebody's. */
class LoopsOfThread {
 public:
  /*! \param runner Null: each loop is one piece, on this thread. */
  explicit LoopsOfThread(LoopRunner* runner);
  ~LoopsOfThread();
  LoopsOfThread(const LoopsOfThread&) = delete;
  LoopsOfThread& operator=(const LoopsOfThread&) = delete;

 private:
  LoopRunner* outer_runner_;
  bool outer_is_ours_;
};

/*! \brief What kernels call. \return 0, or -1 with the error as the thread's raised one. */
int LaunchParallelLoop(ParallelLoop loop, void* data, int pieces) noexcept;

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_PARALLEL_LOOPS_H_
