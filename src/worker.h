/*!
 * \file worker.h
 * \brief A thread that runs its part of the plan, in order, for each batch in flight.
 */
#ifndef TVM_HETERO_WORKER_H_
#define TVM_HETERO_WORKER_H_

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm_hetero/plan.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "board.h"
#include "buffer_pool.h"
#include "device_api.h"
#include "kernel_step.h"
#include "program.h"
#include "request_desk.h"

namespace tvm_hetero {

/*! \brief How long a worker spins before it sleeps. */
struct Spin {
  std::chrono::nanoseconds between_batches{0};
  std::chrono::nanoseconds in_batch{0};
};

class Worker {
 public:
  /*! \brief All that is pointed to must outlive the worker. */
  Worker(const Plan& plan, const Program& program, int index, Board* board, RequestDesk* desk);

  /*!
   * \brief Start the thread and wait until it is set up; throws what went wrong there.
   * \param spin How long to spin before sleeping.
   */
  void Start(Spin spin);
  /*! \brief Start a thread again in the place of one that has ended. */
  void Restart();
  /*! \brief Wait for the thread's end; `Board::closing` must have been set. */
  void Join();
  bool IsThisThread() const { return thread_.get_id() == std::this_thread::get_id(); }

  // With no batch in flight only.
  /*! \brief Give a step its function; `function` becomes the one that it had. */
  void SetFunction(int step, ffi::Function* function);
  void SetLibrary(const ffi::Module& library);

  /*! \brief A kernels step that has no kernels yet; -1 if there is none. */
  int StepWithoutKernels() const;
  /*! \brief Tensors allocated, those that were reserved not counted. */
  int64_t allocations() const { return allocated_.load(); }

 private:
  /*! \brief A batch that this worker is not through with. */
  struct Job {
    Frame* frame;
    size_t position;  //!< of the next instruction
  };

  // The thread and its surroundings.
  void ThreadMain(std::promise<void> ready);
  void SetUpThread();
  void SetUpMemory();
  void SetUpStreams();
  void ReserveBuffers(int count);
  void Work();
  void Die(const std::string& cause);
  // What to do next.
  void Accept();
  bool HasNews() const { return board_->announced.load() != accepted_; }
  bool IsReady(const Job& job) const;
  int FirstReady() const;
  bool AwaitChange();
  // One step of one batch.
  void RunNext(size_t job);
  bool TryStep(const Job& job);
  void Announce(const Job& job);
  void Release(const Job& job);
  void Leave(size_t job);
  // One step (worker_steps.cc).
  void RunStep(const StepPlan& step, const Job& job);
  void RunKernels(const StepPlan& step, const Job& job);
  void Call(const StepPlan& step, const Job& job);
  void Copy(const StepPlan& step, const Job& job);
  const ffi::Any& In(const Frame& frame, int slot) const;
  void Fill(Frame* frame, int slot, ffi::Any tensor);
  void FillFromCall(Frame* frame, int slot, ffi::Any tensor);

  const Plan& plan_;
  const WorkerPlan& self_;
  const int index_;
  const std::vector<Instruction>& instructions_;
  const Program& program_;
  Board* board_;
  RequestDesk* desk_;
  Parker* parker_;
  Spin spin_;
  bool pool_configured_{false};
  std::deque<DeviceStream> streams_;  //!< of its device and of all that it copies to or from

  std::vector<Job> jobs_;       //!< the oldest first
  uint64_t accepted_{0};        //!< batches up to this one have been taken into the list
  double idle_since_{0.0};      //!< NaN while there is something to do, or nothing at all

  std::vector<ffi::Function> functions_;              //!< by position; empty but for calls
  std::vector<std::unique_ptr<KernelStep>> kernels_;  //!< by position; null but for kernels
  std::vector<std::unique_ptr<BufferPool>> pools_;    //!< by slot; null where others fill it
  std::atomic<int64_t> allocated_{0};
  int buffers_reserved_{0};                           //!< of each slot that kernels fill
  ffi::Tensor scratch_;

  // Of the step at hand, kept for their memory.
  std::vector<ffi::AnyView> arguments_;
  std::vector<const ffi::TensorObj*> ins_, outs_;
  std::vector<ffi::Tensor> made_;
  std::thread thread_;
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_WORKER_H_
