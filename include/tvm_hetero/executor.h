/*!
 * \file tvm_hetero/executor.h
 * \brief Runs a plan on several devices at once.
 */
#ifndef TVM_HETERO_EXECUTOR_H_
#define TVM_HETERO_EXECUTOR_H_

#include <sys/types.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <tvm_hetero/plan.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace tvm_hetero {

struct Board;
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
   * to, holding no Python object, and ends without needing the interpreter.
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

  tvm::ffi::Tensor Output(int64_t index) const;
  /*! \brief Start and end of each step in the last run, in seconds since its start. */
  std::vector<double> Trace() const;
  /*! \brief The slots made by steps that hold a tensor now. */
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
  void StartRun();
  bool AwaitEnd();
  void EmptySlots();
  [[noreturn]] void ThrowFirstError();

  const Plan plan_;
  std::unique_ptr<const Program> program_;
  std::unique_ptr<Board> board_;
  std::vector<std::unique_ptr<Worker>> workers_;
  bool has_functions_{false};
  bool has_outputs_{false};
  std::atomic<bool> stopped_{false};
  mutable std::atomic<bool> busy_{false};
  pid_t process_;
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_H_
