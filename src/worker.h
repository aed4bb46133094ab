/*!
 * \file worker.h
 * \brief A thread that runs its part of the plan, in order, once a run.
 */
#ifndef TVM_HETERO_WORKER_H_
#define TVM_HETERO_WORKER_H_

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <tvm_hetero/plan.h>

#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "board.h"
#include "buffer_pool.h"
#include "device_api.h"
#include "program.h"

namespace tvm_hetero {

/*! \brief When a step ran, in seconds since the start of the run; NaN where it was skipped. */
struct Span {
  double start;
  double end;
};

/*! \brief How long a worker spins before it sleeps. */
struct Spin {
  std::chrono::nanoseconds between_runs{0};
  std::chrono::nanoseconds in_run{0};
};

/*! \brief Why a step failed, and in which batch of a stream (from 0). */
struct StepError {
  int step;
  std::string message;
  uint64_t batch{0};
};

class Worker {
 public:
  /*! \brief `plan`, `program` and `board` must outlive the worker. */
  Worker(const Plan& plan, const Program& program, int index, Board* board);

  /*!
   * \brief Start the thread and wait until it is set up; throws what went wrong there.
   * \param spin How long to spin before sleeping.
   */
  void Start(Spin spin);
  /*! \brief Wait for the thread's end; `Board::closing` must have been set. */
  void Join();

  // The rest is for the thread that drives the executor, between runs only.
  void SetFunction(size_t position, ffi::Function function);
  const std::vector<Instruction>& instructions() const { return instructions_; }
  const std::vector<Span>& spans() const { return spans_; }
  /*! \brief What failed since the last call. */
  std::optional<StepError> TakeError();

 private:
  // The thread and its surroundings.
  void ThreadMain(std::promise<void> ready);
  void SetUpThread();
  // One run.
  void RunAll(uint64_t run);
  void LeaveRun();
  bool WaitForProducers(const Instruction& instruction, uint64_t run);
  bool TryStep(size_t position, Span* span);
  void Announce(const Instruction& instruction, uint64_t run);
  void Release(const Instruction& instruction);
  // One stream: a run of many batches (stages.h).
  void RunStream();
  bool AwaitPeriod(uint64_t period);
  bool RunPeriod(uint64_t period);
  bool IsEmpty(uint64_t batch) const;
  void EndBatch(uint64_t batch);
  // One step.
  const ffi::Any& In(int slot) const;
  void Call(const StepPlan& step, const ffi::Function& function);
  void Copy(const StepPlan& step);
  void Fill(int slot, ffi::Any tensor);
  double Now() const;

  const Plan& plan_;
  const WorkerPlan& self_;
  const std::vector<Instruction>& instructions_;  //!< of a run
  const std::vector<Instruction>& pipelined_;     //!< of a stream: the same steps, other waits
  const std::vector<SlotUse>& slot_uses_;
  Board* board_;
  Parker* parker_;
  Spin spin_;
  bool pool_configured_{false};
  BufferPool buffers_;
  std::optional<DeviceStream> stream_;    //!< lives as long as the thread
  std::vector<ffi::Function> functions_;  //!< one an instruction; empty for copies
  std::vector<ffi::AnyView> arguments_;   //!< of the call at hand
  std::vector<Span> spans_;               //!< one an instruction
  Frame* frame_;                          //!< of the batch at hand
  std::optional<StepError> error_;
  std::thread thread_;
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_WORKER_H_
