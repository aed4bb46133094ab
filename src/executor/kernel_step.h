/*!
 * \file executor/kernel_step.h
 * \brief Runs the kernels of one step, one after the other.
 *
 * A kernel costs microseconds, so all that can be is done once, at load: the views that the kernels
 * are given (DLTensor) and the packed lists of arguments that point to them. Of a run only the
 * addresses are new, for a slot's tensor differs from frame to frame: each run writes the addresses
 * of its ins, outs and scratch into the views, and calls.
 */
#ifndef TVM_HETERO_EXECUTOR_KERNEL_STEP_H_
#define TVM_HETERO_EXECUTOR_KERNEL_STEP_H_

#include <tvm/ffi/any.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm_hetero/plan.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace tvm_hetero {

namespace ffi = tvm::ffi;

/*! \brief One kernels step of a plan; belongs to one worker, whose thread alone calls `Run`. */
class KernelStep {
 public:
  /*! \brief `plan` is checked and must outlive the step; `step` is a kernels step. */
  KernelStep(const Plan& plan, int step);
  KernelStep(const KernelStep&) = delete;  // the argument lists point into the object
  KernelStep& operator=(const KernelStep&) = delete;
  KernelStep(KernelStep&&) = default;

  /*! \brief One function for each call of the step, in order. */
  void SetFunctions(std::vector<ffi::Function> functions);
  /*! \brief Look the kernels up by name; throws RuntimeError naming one that is not there. */
  void SetLibrary(const ffi::Module& library);
  bool ready() const { return ready_; }

  struct Context {
    const ffi::TensorObj* const* ins;
    const ffi::TensorObj* const* outs;  //!< buffers that the step is to fill
    char* scratch;                      //!< aligned to kAlignment; may be null if none is used
    const std::atomic<bool>* skip;      //!< looked at before each kernel; may be null
    bool check_numerics;                //!< throw at the first value that is no finite number
    double* times;                      //!< one a call, seconds; NaN if skipped. Null: not timed
  };

  /*!
   * \brief Start all kernels; returns early if `*skip` is set. A GPU may still be at work then.
   * \throws RuntimeError "task 'T' (kernel K): ...", NumericsError "task 'T' (kernel K): ..."
   */
  void Run(const Context& context);

 private:
  /*! \brief Where an address goes that changes from run to run. */
  struct Patch {
    int view;
    int64_t source;  //!< position in ins or outs, or offset into scratch
  };

  /*! \brief An in whose size the plan does not say: a constant, or a foreign function's result. */
  struct Unknown {
    int in;
    int64_t bytes;
  };

  void AddView(const ArgPlan& arg);
  void AddIn(int in);
  void Bind(const Context& context);
  static char* AddressOf(const DLTensor& tensor);
  void CheckTensors(const Context& context) const;
  [[noreturn]] void RefuseAlignment() const;
  void Call(size_t call) const;
  void CallWatched(size_t call, const Context& context) const;

  const Plan& plan_;
  const StepPlan& step_;
  const DLDevice device_;
  std::vector<DLTensor> views_;          //!< of all calls, one behind the other
  std::vector<ffi::AnyView> arguments_;  //!< one a view
  std::vector<int> first_;               //!< of each call, its first view; and the end
  std::vector<Patch> ins_, outs_, scratch_;
  std::vector<Unknown> unknown_;
  std::vector<char*> in_addresses_, out_addresses_;  //!< of the run at hand
  std::vector<ffi::Function> functions_;
  char* bound_scratch_{nullptr};  //!< what the views of scratch point to now
  bool ready_{false};
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_KERNEL_STEP_H_
