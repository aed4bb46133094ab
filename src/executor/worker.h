/*!
 * \file executor/worker.h
 * \brief A thread that runs its part of the plan, in order, for each batch in flight; and, where
 *        it is idle, parallel loops of meetings, and steps of others that are alike (state.h).
 */
#ifndef TVM_HETERO_EXECUTOR_WORKER_H_
#define TVM_HETERO_EXECUTOR_WORKER_H_

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm_hetero/plan.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "executor/core_watch.h"
#include "executor/kernel_step.h"
#include "executor/program.h"
#include "executor/request_desk.h"
#include "executor/state.h"
#include "executor/team.h"
#include "executor/thread_clock.h"
#include "memory/device_api.h"

namespace tvm_hetero {

/*! \brief How long a worker spins before it sleeps. */
struct Spin {
  std::chrono::nanoseconds between_batches{0};
  std::chrono::nanoseconds in_batch{0};
};

class Worker {
 public:
  /*!
   * \brief All that is pointed to must outlive the worker.
   * \param before Of the executor for whose workers on the same cores this one waits; may be null.
   */
  Worker(const Plan& plan, const Program& program, int index, ExecutorState* state,
         RequestDesk* desk, const Departure* before = nullptr);

  /*!
   * \brief Start the thread and wait until it is set up; throws what went wrong there.
   * \param spin How long to spin before sleeping.
   */
  void Start(Spin spin);
  /*! \brief Start a thread again in the place of one that has ended. */
  void Restart();
  /*! \brief Wait for the thread's end; `ExecutorState::closing` must have been set. */
  void Join();
  bool IsThisThread() const { return thread_.get_id() == std::this_thread::get_id(); }

  // With no batch in flight only.
  /*! \brief Give a step its function; `function` becomes the one that it had. */
  void SetFunction(int step, ffi::Function* function);
  /*! \brief Look up the kernels of a worker's steps, this one's or those of one that is alike. */
  void SetLibrary(int worker, const ffi::Module& library);

  /*! \brief A kernels step that has no kernels yet; -1 if there is none. */
  int StepWithoutKernels() const;

 private:
  /*! \brief A time of none. */
  static constexpr double kNotIdle = std::numeric_limits<double>::quiet_NaN();

  /*! \brief A worker's steps, as this worker would run them. */
  struct Part {
    int worker;
    const std::vector<Instruction>* instructions;
    std::vector<ffi::Function> functions;              //!< by position; empty but for calls
    std::vector<std::unique_ptr<KernelStep>> kernels;  //!< by position; null but for kernels
    std::vector<uint64_t> seen;                        //!< by frame: the last batch that was noted
    int buffers_reserved{0};                           //!< of each slot that kernels fill
  };
  /*! \brief A part of a batch that may be this worker's business. */
  struct Job {
    Frame* frame;
    uint64_t batch;
    size_t part;  //!< index into parts_
  };
  /*! \brief A step of a job that this worker has taken. */
  struct Held {
    Job job;
    size_t position;
  };
  /*! \brief The board of a meeting, and as which of its threads it helps there. */
  struct HelpedBoard {
    LoopBoard* board;
    size_t number;
  };
  /*! \brief A worker whose core this one may exchange for its own. */
  struct Peer {
    int worker;
    CoreWatch watch;
  };
  /*! \brief What a job has to offer. */
  enum class Readiness { kWaits, kReady, kGone };

  // The thread and its surroundings.
  void ThreadMain(std::promise<std::string> ready);
  void SetUpThread();
  bool HasTeam() const;
  void SetUpTeam();
  void SetUpMemory();
  void SetUpStreams();
  void AddPart(int worker);
  void ReserveBuffers(Part* part, int count);
  void Work();
  void Die(const std::string& cause);
  // What to do next (worker_choice.cc, worker_peers.cc).
  void AddPeers();
  bool IsAloneOnCore(int worker) const;
  bool HasReadyStep(int worker) const;
  void WatchPeers();
  void Accept();
  bool HasNews() const { return state_->announced.load() != accepted_; }
  bool HasOwn() const;
  bool HasLoop() const;
  bool IsLoopNear() const;
  void HelpWithLoops();
  Readiness Look(const Job& job, uint64_t* period) const;
  int FirstReady() const;
  int FirstReady(bool own) const;
  Parker::Duration SpinBetweenBatches() const;
  bool IsHeldUp() const;
  bool MayLeave() const;
  void LeaveCore();
  void HandOverCore();
  template <typename HasChanged>
  void AwaitPeers(HasChanged has_changed);
  bool AwaitChange();
  void Rest();
  // A part of a batch (worker_jobs.cc).
  void RunNext(size_t job);
  void RunHeld();
  bool TryStep();
  void CallForHelp();
  void Announce();
  void Release();
  void Leave();
  void Abandon(const Job& job);
  Progress& ProgressOf(const Job& job) const { return job.frame->parts[parts_[job.part].worker]; }
  const Instruction& At(const Held& held) const {
    return (*parts_[held.job.part].instructions)[held.position];
  }
  // One step (worker_steps.cc).
  void RunStep();
  void RunKernels(const StepPlan& step, Frame* frame);
  void Call(const StepPlan& step, Frame* frame);
  void Copy(const StepPlan& step, Frame* frame);
  const ffi::Any& In(const Frame& frame, int slot) const;
  void Fill(Frame* frame, int slot, ffi::Any tensor);
  void FillFromCall(Frame* frame, int slot, ffi::Any tensor);

  const Plan& plan_;
  const WorkerPlan& self_;
  const int index_;
  const Program& program_;
  ExecutorState* state_;
  RequestDesk* desk_;
  Parker* parker_;
  const Departure* before_;
  Spin spin_;
  bool pool_configured_{false};
  std::optional<ThreadClock> clock_;  //!< of its thread
  std::unique_ptr<Team> team_;  //!< null: kernels run on one core, but for meetings
  std::vector<LoopBoard*> led_;    //!< of meetings whose steps it runs
  std::vector<HelpedBoard> helped_;  //!< of meetings in which it helps
  std::vector<Peer> peers_;          //!< some of those who are alike
  std::deque<DeviceStream> streams_;  //!< of its device and of all that it copies to or from

  std::vector<Part> parts_;     //!< its own first; then those of workers that are alike
  std::vector<Job> jobs_;       //!< the oldest first
  std::optional<Held> held_;    //!< the step at hand
  uint64_t accepted_{0};        //!< batches up to this one have been taken into the list
  double idle_since_{0.0};      //!< NaN while there is something to do, or nothing at all
  ffi::Tensor scratch_;

  // Of the step at hand, kept for their memory.
  std::vector<ffi::AnyView> arguments_;
  std::vector<const ffi::TensorObj*> ins_, outs_;
  std::vector<ffi::Tensor> made_;
  std::thread thread_;
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_WORKER_H_
