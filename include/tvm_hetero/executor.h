/*!
 * \file tvm_hetero/executor.h
 * \brief Runs a plan on several devices at once.
 */
#ifndef TVM_HETERO_EXECUTOR_H_
#define TVM_HETERO_EXECUTOR_H_

#include <sys/types.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm_hetero/export.h>
#include <tvm_hetero/plan.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace tvm_hetero {

class Departure;
struct ExecutorState;
struct Program;
struct Request;
class RequestDesk;
class Worker;

/*!
 * \brief The workers of a plan, waiting for requests.
 *
 * A request is one set of inputs on its way to its outputs. Up to Frames() of them are in flight at
 * once, each in a frame of its own, and every worker goes on with what is furthest behind
 * (src/executor/state.h). Submit, Serve, Wait, Take, Cancel, Forget, NextDone, Stop and Shutdown may be
 * called by any thread at any time. One request that fails, is cancelled or late takes nothing from
 * the others.
 *
 * Run, RunRepeated and RunStream work on the inputs that SetInput has set, for measurements; these
 * and what sets and gets for them are for one thread at a time, and a second one is refused.
 *
 * Errors of a request are RuntimeErrors that begin with "cancelled", "deadline", "closed",
 * "numerics: step ...", "worker 'W' died" or "step 'S' on worker 'W' failed".
 */
class TVM_HETERO_API Executor {
 public:
  /*! \brief Start the workers. Throws RuntimeError where a device or core is not there. */
  explicit Executor(Plan plan);
  /*!
   * \brief The same, for who takes over from another executor on the same cores (see Retire).
   *
   * A worker begins nothing before the other one's workers on its cores are through with all that
   * they have in flight: so that one is to be retired, or destroyed. What is made ready here takes a
   * fifth of those cores at most (src/support/pace.h), and all memory that as many requests in flight
   * will need as that one has had.
   */
  Executor(Plan plan, const Executor& before);
  /*!
   * \brief End the workers.
   *
   * Safe with the Python interpreter's lock held if no step that is running needs it: otherwise call
   * Shutdown first, without that lock (native.py does).
   */
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // ---- what is run; with nothing in flight only

  /*! \brief One function for each step; what stands in the place of other steps is ignored. */
  void SetFunctions(const tvm::ffi::Array<tvm::ffi::Any>& functions);
  /*! \brief The library in which a worker's kernels are looked up by name. */
  void SetLibrary(int64_t worker, const tvm::ffi::Module& library);
  void SetConstant(int64_t index, const tvm::ffi::Tensor& tensor);

  // ---- requests; for any thread

  /*!
   * \brief Begin a request; `inputs` in the plan's order, not to be changed until it is done.
   * \param deadline_s After how many seconds from now it fails; <= 0: never.
   * \param wait_s How long to wait for room; 0: not at all; < 0: as long as it takes.
   * \param notify Whether NextDone is to tell of its end.
   * \return The request's number, from 1; 0 if there was no room in time.
   */
  int64_t Submit(const tvm::ffi::Array<tvm::ffi::Tensor>& inputs, double deadline_s, double wait_s,
                 bool notify);
  /*!
   * \brief Submit, Wait and Take in one call, for who has nothing to do meanwhile.
   * \param settle_s How long to wait, when it was cut off, for the kernel of it that still runs.
   * \return The outputs, or the error thrown; none if there was no room in time.
   */
  std::optional<tvm::ffi::Array<tvm::ffi::Tensor>> Serve(
      const tvm::ffi::Array<tvm::ffi::Tensor>& inputs, double deadline_s, double wait_s,
      double settle_s);
  /*! \brief Wait until a request is done. \return false if that took longer than `seconds`. */
  bool Wait(int64_t id, double seconds);
  /*! \brief The outputs of a request that is done, or its error thrown; forgets it. */
  tvm::ffi::Array<tvm::ffi::Tensor> Take(int64_t id);
  /*! \brief End a request now; what is running of it is not waited for. \return false if done. */
  bool Cancel(int64_t id);
  /*! \brief Let go of a request, which is cancelled unless it is done. */
  void Forget(int64_t id);
  /*!
   * \brief Wait for the end of any request submitted with `notify`.
   * \return Its number, each once; 0 if there was none in time (seconds < 0: for ever), or if the
   *         executor is closed and all ends have been told.
   */
  int64_t NextDone(double seconds);

  // ---- measuring; for one thread

  void SetInput(int64_t index, const tvm::ffi::Tensor& tensor);
  /*! \brief Run the plan once. \return Seconds from start to the end of the last step. */
  double Run();
  /*! \brief Run the plan `count` times, one after the other. \return The seconds of each. */
  std::vector<double> RunRepeated(int64_t count);
  /*!
   * \brief Run `count` batches with Frames() of them in flight; outputs are dropped.
   * \return When the first, second, ... of them had ended, in seconds since the start.
   */
  std::vector<double> RunStream(int64_t count);
  /*! \brief Output of the last Run. */
  tvm::ffi::Tensor Output(int64_t index) const;

  /*!
   * \brief Start and end of each step in the last batch that ended, NaN where it was skipped, in
   *        seconds since its first step's start. After RunStream: in a batch from its middle.
   */
  std::vector<double> Trace() const;
  /*! \brief Of the same batch: how long each step's worker had waited for it, with no other work. */
  std::vector<double> Waits() const;
  /*! \brief Of the same batch: the worker that ran each step; -1 where it was skipped. */
  std::vector<int64_t> RunBy() const;
  /*! \brief Seconds of each call of each kernels step in the same batch, if it was profiled. */
  std::vector<double> KernelTimes() const;
  void ProfileKernels(bool on);
  /*!
   * \brief Keep what each step of the last `capacity` requests takes, from now on; 0: no more.
   *
   * With the time that its thread had a core, and that it waited for one while it wanted it
   * (src/executor/thread_clock.h): some microseconds a step.
   */
  void Watch(int64_t capacity);
  /*!
   * \brief The requests that were watched and not yet taken, the oldest first: a row of float64
   *        each, in seconds of the steady clock: begin, end, and for each step its start,
   *        end, how long its worker had waited, who ran it, time on its core, time in its queue.
   *        NaN (and -1) where it was skipped.
   */
  tvm::ffi::Tensor TakeWatched();
  /*! \brief Let a request fail at the first kernel that writes something that is not finite. */
  void CheckNumerics(bool on);

  /*! \brief The stage of each step (src/executor/stages.h). */
  std::vector<int64_t> Stages() const;
  /*! \brief How many requests may be in flight. */
  int64_t Frames() const;
  /*! \brief How many tensors have been allocated since all were that were foreseen. */
  int64_t Allocations() const;
  /*! \brief The slots that steps have filled and that hold a tensor now, but for those in flight. */
  std::vector<int64_t> FilledSlots() const;

  // ---- the end; for any thread

  /*!
   * \brief Refuse further requests ("retired: ...") and wait until none is in flight.
   *
   * For who hands over to another executor on the same cores: what is in flight ends as it would.
   * \param seconds How long to wait; < 0: as long as it takes. \return false if that was too short.
   */
  bool Retire(double seconds);

  /*! \brief Fail all that is in flight and refuse everything from now on. Waits for nothing. */
  void Stop();
  /*! \brief Stop, and wait for the threads' ends. Does not wait for a worker that calls it. */
  void Shutdown();
  /*! \brief Whether this process is a fork of the one that started the workers. */
  bool Forked() const;
  /*! \brief Whether the calling thread is one of the workers. */
  bool OnWorker() const;

 private:
  class Exclusive;

  Executor(Plan plan, const ExecutorState* before);
  void RefuseFork() const;
  void CheckReady() const;
  void CheckInputsSet() const;
  void CheckInput(int64_t index, const tvm::ffi::Tensor& tensor) const;
  void CheckInputs(const tvm::ffi::Array<tvm::ffi::Tensor>& inputs) const;
  std::shared_ptr<Request> Begin();
  double RunOnce();

  const Plan plan_;
  std::unique_ptr<const Program> program_;
  std::unique_ptr<ExecutorState> state_;
  std::unique_ptr<RequestDesk> desk_;
  const std::shared_ptr<Departure> before_;  //!< null where this one takes over from nobody
  std::vector<std::unique_ptr<Worker>> workers_;
  std::mutex joining_;
  mutable std::atomic<bool> ready_{false};  //!< nothing is missing that is set once
  std::atomic<bool> has_functions_{false};

  // Of runs.
  std::vector<tvm::ffi::Any> inputs_;
  std::optional<tvm::ffi::Array<tvm::ffi::Tensor>> input_list_;  //!< the same, when all are there
  std::optional<tvm::ffi::Array<tvm::ffi::Tensor>> outputs_;
  mutable std::atomic<bool> busy_{false};
  pid_t process_;
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_H_
