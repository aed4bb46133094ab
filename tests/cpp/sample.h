/*!
 * \file sample.h
 * \brief A plan with a step of every kind, its kernels, and a user of its executor.
 *
 * For an input x (16 floats) and the constant w:
 *
 *   worker a     s0 = 2 (x + 1)       two kernels; x + 1 lives in scratch
 *   worker b     s1 = s0 + w
 *   worker link  p0 = s0 copied to the memory of `far`
 *   worker far   p1 = 3 p0
 *   worker link  h1 = p1 copied back
 *   worker a     sum = s1 + h1        an output: 8 (x + 1) + w
 *   worker b     twice = h1 + h1      an output, made by a function that returns a tensor
 *
 * Workers a and b are alike: each runs the other's steps where it has nothing of its own to do.
 *
 * In a plan with a meeting, both kernels of a, `stem` and `join`, are steps of a meeting of a and b;
 * kernels are parallel loops.
 *
 * Some values of x[0] make trouble: the first kernel throws, writes a NaN, waits at a gate, or wants a
 * second thread.
 */
#ifndef TVM_HETERO_TESTS_SAMPLE_H_
#define TVM_HETERO_TESTS_SAMPLE_H_

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace tvm_hetero::tests {

namespace ffi = tvm::ffi;

constexpr int64_t kFloats = 16;
constexpr float kThrows = -1000.0f;  // x[0] for which the first kernel throws
constexpr float kNotFinite = -2000.0f;
constexpr float kGated = -3000.0f;
constexpr float kTogether = -4000.0f;  // the first kernel ends when two threads are at its loop
constexpr float kWeight = 5.0f;

/*! \brief Where kernels with x[0] == kGated wait while it is closed. */
class Gate {
 public:
  void Close();
  void Open();
  void Pass();          //!< for kernels
  void AwaitArrival();  //!< until a kernel stands before the closed gate

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_{true};
  int waiting_{0};
};

Gate& TheGate();

/*! \brief Closes the gate for its lifetime; made after the executor whose kernels wait there. */
struct ClosedGate {
  ClosedGate() { TheGate().Close(); }
  ~ClosedGate() { TheGate().Open(); }
};

/*! \brief 16 floats, all `value`. */
ffi::Tensor Filled(float value);

/*! \brief Arms a kind of fault (src/support/faults.h) for its lifetime. */
class Fault {
 public:
  Fault(const std::string& kind, int64_t nth);
  ~Fault();

 private:
  std::string kind_;
};

/*! \brief Whether workers a and b meet. */
enum class Meeting { kNone, kOfBoth };

/*! \brief On which cores workers a and b are: on one each where the process has two. */
enum class Cores { kAny, kPinned };

/*! \brief The executor's module with the sample plan, as any language would use it. */
class Sample {
 public:
  /*! \brief With so many bytes of memory for the host; less than 0: as the plan does not say. */
  explicit Sample(int64_t memory = -1, Meeting meeting = Meeting::kNone, Cores cores = Cores::kAny,
                  const Sample* before = nullptr);
  explicit Sample(Meeting meeting) : Sample(-1, meeting) {}
  explicit Sample(Cores cores) : Sample(-1, Meeting::kNone, cores) {}
  /*! \brief One that takes over from another, on the same cores. */
  static Sample After(const Sample& before, Meeting meeting = Meeting::kNone) {
    return Sample(-1, meeting, Cores::kPinned, &before);
  }

  template <typename... Args>
  ffi::Any Call(const char* name, Args&&... args) const {
    return module_->GetFunction(ffi::String(name)).value()(std::forward<Args>(args)...);
  }

  int64_t Submit(const ffi::Tensor& x, double deadline = 0, double wait = -1, bool notify = false);
  bool Wait(int64_t id, double seconds = -1);
  ffi::Array<ffi::Tensor> Take(int64_t id);
  /*! \brief The three in one call; nothing if there was no room in time. */
  std::optional<ffi::Array<ffi::Tensor>> Serve(const ffi::Tensor& x, double deadline = 0,
                                               double wait = -1, double settle = 0);
  const ffi::Module& module() const { return module_; }
  int64_t Allocations() const { return Call("allocations").cast<int64_t>(); }
  int64_t Frames() const { return Call("frames").cast<int64_t>(); }

  /*! \brief Check the outputs for an input all of `x`. */
  static void CheckOutputs(const ffi::Array<ffi::Tensor>& outputs, float x);
  /*! \brief Run one request, which must come out right. */
  void CheckServes(float x);
  /*! \brief "" if a request came out right, else its error. */
  std::string Outcome(int64_t id, float x);

 private:
  ffi::Module module_;
};

}  // namespace tvm_hetero::tests
#endif  // TVM_HETERO_TESTS_SAMPLE_H_
