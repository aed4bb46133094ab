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
#include <tvm/ffi/function.h>
#include <tvm_hetero/plan.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tvm_hetero {

struct Board;
struct Frame;
struct Program;
class Worker;

/*!
 * \brief The workers of a plan, waiting for runs.
 *
 * One thread at a time may use it: a second one is refused, for a run belongs together with the
 * inputs set before it and the outputs read after it; waiting in line would mix them up.
 *
 * Inputs and constants stay until they are replaced. Outputs stay until the next run starts;
 * tensors that a caller holds live on as long as they are held. After a failed run the next one
 * works again.
 *
 * A stream keeps all workers busy with batches that follow each other: OpenStream, then Push and Pop
 * in any way, then CloseStream. Outputs come in the order of the inputs. It counts as one run; while
 * it is open, all but its own calls are refused. After a failure it is closed, with everything in
 * flight dropped. How it works stands in src/stages.h.
 */
class Executor {
 public:
  /*! \brief Start the workers. Throws RuntimeError where a device or core is not there. */
  explicit Executor(Plan plan);
  /*!
   * \brief End the workers.
   *
   * Safe with the Python interpreter's lock held. A running run() holds a reference to its
   * executor, so here all workers have passed the end of their run: each sleeps or is on its way
   * to, holding no Python object, and ends without needing the interpreter. With a stream open that
   * is not so: close it first if steps are functions of Python (native.py does).
   */
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /*! \brief One function for each step; what stands in the place of a copy is ignored. */
  void SetFunctions(const tvm::ffi::Array<tvm::ffi::Any>& functions);
  void SetConstant(int64_t index, const tvm::ffi::Tensor& tensor);
  void SetInput(int64_t index, const tvm::ffi::Tensor& tensor);

  /*! \brief Run the plan once. \return Seconds from start to the end of the last step. */
  double Run();
  /*! \brief Run the plan `count` times. \return The seconds of each. */
  std::vector<double> RunRepeated(int64_t count);

  /*! \brief The stage of each step (src/stages.h). */
  std::vector<int64_t> Stages() const;
  /*! \brief How many batches a stream takes in before one must be taken out. */
  int64_t Frames() const;
  void OpenStream();
  /*!
   * \brief Begin a batch; `inputs` in the plan's order, not to be changed until it has ended.
   * \return false, with nothing done, if the stream is full: pop first.
   */
  bool Push(const tvm::ffi::Array<tvm::ffi::Tensor>& inputs);
  /*! \brief Wait for the oldest batch. \return Its outputs. */
  tvm::ffi::Array<tvm::ffi::Tensor> Pop();
  /*! \brief Drop what is in flight, if anything, and end the stream, if one is open. */
  void CloseStream();
  /*!
   * \brief Run `count` batches, in a pipeline, on the inputs that are set.
   * \return When each had ended, in seconds since the start. The outputs are dropped.
   */
  std::vector<double> RunStream(int64_t count);

  tvm::ffi::Tensor Output(int64_t index) const;
  /*!
   * \brief Start and end of each step in the last run, in seconds since its start.
   *
   * After a stream: in the last period in which a batch was pushed, since its first step's start.
   */
  std::vector<double> Trace() const;
  /*! \brief The slots that steps have filled and that hold a tensor now. */
  std::vector<int64_t> FilledSlots() const;

  /*!
   * \brief Cut short a run of another thread, if there is one, and refuse all further ones.
   *
   * Any thread may call it at any time. Does not wait for the run to end.
   */
  void Stop();

  /*! \brief Whether this process is a fork of the one that started the workers. */
  bool Forked() const;

 private:
  class Exclusive;

  void JoinWorkers();
  double RunOnce();
  void CheckReady() const;
  void CheckInputsSet() const;
  void CheckInput(int64_t index, const tvm::ffi::Tensor& tensor) const;
  void StartRun(uint64_t number);
  bool AwaitEnd();
  void EmptySlots();
  tvm::ffi::Error FirstError();
  tvm::ffi::Tensor OutputIn(const Frame& frame, int64_t index) const;

  // Of streams; all need the executor held.
  void BeginStream();
  bool IsFull();
  void Announce(bool empty);
  void AwaitOldest();
  Frame& AwaitOldestBatch();
  void Retire(Frame* frame);
  void DismissWorkers();
  void EndStream();
  [[noreturn]] void FailStream(bool interrupted);

  const Plan plan_;
  std::unique_ptr<const Program> program_;
  std::unique_ptr<Board> board_;
  std::vector<std::unique_ptr<Worker>> workers_;
  uint64_t number_{0};    //!< of the last run, or the last batch of a stream
  uint64_t oldest_{0};    //!< batch of the stream that has not been taken out yet
  int64_t in_flight_{0};  //!< batches of the stream, without the empty ones
  bool has_functions_{false};
  bool has_outputs_{false};
  bool last_was_stream_{false};
  std::atomic<bool> stopped_{false};
  mutable std::atomic<bool> busy_{false};
  pid_t process_;
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_H_
