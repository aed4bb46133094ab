#include "executor/kernel_step.h"

#include <tvm/ffi/error.h>
#include <tvm/ffi/string.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <string>
#include <utility>

#include "executor/numerics.h"
#include "memory/device_api.h"
#include "memory/workspace.h"
#include "plan/plan_text.h"
#include "support/device_name.h"
#include "support/faults.h"

namespace tvm_hetero {
namespace {

/*! \brief A kernel's exception, with the kernel named; the kind of a NumericsError stays. */
ffi::Error KernelError(const CallPlan& call, const std::exception& cause) {
  std::string where = "task '" + call.task + "' (kernel " + call.kernel + "): ";
  const auto* typed = dynamic_cast<const ffi::Error*>(&cause);
  if (typed == nullptr) return ffi::Error("RuntimeError", where + cause.what(), "");
  if (typed->kind() == "NumericsError") {
    return ffi::Error("NumericsError", where + typed->message(), "");
  }
  return ffi::Error("RuntimeError", where + typed->kind() + ": " + typed->message(), "");
}

}  // namespace

KernelStep::KernelStep(const Plan& plan, int step)
    : plan_(plan), step_(plan.steps[step]), device_(plan.DeviceOfWorker(step_.worker)) {
  for (const CallPlan& call : step_.calls) {
    first_.push_back(static_cast<int>(views_.size()));
    for (const ArgPlan& arg : call.args) AddView(arg);
  }
  first_.push_back(static_cast<int>(views_.size()));
  // Only now do the views stay where they are.
  for (DLTensor& view : views_) arguments_.emplace_back(&view);
  for (size_t i = 0; i < step_.ins.size(); ++i) AddIn(static_cast<int>(i));
  in_addresses_.resize(step_.ins.size());
  out_addresses_.resize(step_.outs.size());
}

void KernelStep::AddView(const ArgPlan& arg) {
  DLTensor view{};
  view.device = device_;
  view.ndim = static_cast<int32_t>(arg.type.shape.size());
  view.dtype = arg.type.dtype;
  view.shape = const_cast<int64_t*>(arg.type.shape.data());  // kernels do not write it
  Patch patch{static_cast<int>(views_.size()), arg.where};
  (arg.kind == ArgKind::kIn ? ins_ : arg.kind == ArgKind::kOut ? outs_ : scratch_).push_back(patch);
  views_.push_back(view);
}

/*! \brief Note the size that an in must have where the plan alone has not settled it. */
void KernelStep::AddIn(int in) {
  int slot = step_.ins[in];
  bool known = plan_.slots[slot].type.has_value();
  for (const InputPlan& input : plan_.inputs) known = known || input.slot == slot;
  if (known) return;
  int64_t bytes = 0;
  for (const CallPlan& call : step_.calls) {
    for (const ArgPlan& arg : call.args) {
      if (arg.kind == ArgKind::kIn && arg.where == in) bytes = std::max(bytes, arg.type.Bytes());
    }
  }
  unknown_.push_back(Unknown{in, bytes});
}

void KernelStep::SetFunctions(std::vector<ffi::Function> functions) {
  if (functions.size() != step_.calls.size()) {
    TVM_FFI_THROW(ValueError) << functions.size() << " functions were given for step '"
                              << step_.name << "', expected one for each of its "
                              << step_.calls.size() << " calls";
  }
  functions_ = std::move(functions);
  ready_ = true;
}

void KernelStep::SetLibrary(const ffi::Module& library) {
  std::vector<ffi::Function> functions;
  for (const CallPlan& call : step_.calls) {
    ffi::Optional<ffi::Function> function = library->GetFunction(call.kernel, true);
    if (!function.has_value()) {
      TVM_FFI_THROW(RuntimeError) << "step '" << step_.name << "': the library has no kernel '"
                                  << call.kernel << "', which task '" << call.task
                                  << "' calls: build the artifact again";
    }
    functions.push_back(function.value());
  }
  SetFunctions(std::move(functions));
}

void KernelStep::Run(const Context& context) {
  if (context.times != nullptr) {
    std::fill_n(context.times, functions_.size(), std::numeric_limits<double>::quiet_NaN());
  }
  Bind(context);
  const bool watched = context.times != nullptr || context.check_numerics;
  size_t call = 0;
  // Only std::exception: see worker.cc.
  try {
    for (; call < functions_.size(); ++call) {
      if (context.skip != nullptr && context.skip->load(std::memory_order_relaxed)) return;
      MaybeFail(FaultKind::kKernel);
      if (watched) {
        CallWatched(call, context);
      } else {
        Call(call);
      }
    }
  } catch (const std::exception& error) {
    RecycleWorkspaces();  // a kernel that fails keeps what it has taken
    throw KernelError(step_.calls[call], error);
  }
}

void KernelStep::Call(size_t call) const {
  ffi::Any nothing;
  functions_[call].CallPacked(arguments_.data() + first_[call], first_[call + 1] - first_[call],
                              &nothing);
}

/*! \brief Call, wait for a GPU's end, take the time and look at the result. */
void KernelStep::CallWatched(size_t call, const Context& context) const {
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  Call(call);
  SynchronizeThread(device_);
  Clock::time_point end = Clock::now();
  if (context.times != nullptr) {
    context.times[call] = std::chrono::duration<double>(end - start).count();
  }
  if (context.check_numerics) CheckFinite(step_.calls[call], views_.data() + first_[call]);
}

void KernelStep::Bind(const Context& context) {
  for (size_t i = 0; i < in_addresses_.size(); ++i) in_addresses_[i] = AddressOf(*context.ins[i]);
  for (size_t i = 0; i < out_addresses_.size(); ++i) {
    out_addresses_[i] = AddressOf(*context.outs[i]);
  }
  CheckTensors(context);
  for (const Patch& patch : ins_) views_[patch.view].data = in_addresses_[patch.source];
  for (const Patch& patch : outs_) views_[patch.view].data = out_addresses_[patch.source];
  if (bound_scratch_ == context.scratch) return;
  for (const Patch& patch : scratch_) views_[patch.view].data = context.scratch + patch.source;
  bound_scratch_ = context.scratch;
}

char* KernelStep::AddressOf(const DLTensor& tensor) {
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

void KernelStep::CheckTensors(const Context& context) const {
  uintptr_t all = 0;
  for (char* address : in_addresses_) all |= reinterpret_cast<uintptr_t>(address);
  for (char* address : out_addresses_) all |= reinterpret_cast<uintptr_t>(address);
  if (all % kAlignment != 0) RefuseAlignment();
  for (const Unknown& unknown : unknown_) {
    const ffi::TensorObj& tensor = *context.ins[unknown.in];
    auto bytes = static_cast<int64_t>(ffi::GetDataSize(tensor));
    const bool compact = ffi::IsContiguous(tensor);
    if (compact && bytes == unknown.bytes) continue;
    TVM_FFI_THROW(ValueError) << "slot '" << plan_.slots[step_.ins[unknown.in]].name << "' holds "
                              << bytes << (compact ? " bytes" : " bytes, strided")
                              << ", expected the " << unknown.bytes
                              << " that kernels read, contiguous";
  }
}

void KernelStep::RefuseAlignment() const {
  std::string names;
  auto add = [&](const std::vector<char*>& addresses, const std::vector<int>& slots) {
    for (size_t i = 0; i < addresses.size(); ++i) {
      if (reinterpret_cast<uintptr_t>(addresses[i]) % kAlignment == 0) continue;
      names += (names.empty() ? "'" : ", '") + plan_.slots[slots[i]].name + "'";
    }
  };
  add(in_addresses_, step_.ins);
  add(out_addresses_, step_.outs);
  TVM_FFI_THROW(ValueError) << "kernels need memory aligned to " << kAlignment
                            << " bytes, but this is not so of " << names << ": copy it";
}

}  // namespace tvm_hetero
