// A kernel reads and writes where it is told to, without a look: a wrong offset in a plan would be
// a wrong result or a crash. So before anything runs, each argument must be a view
//
//   of a slot     that is there, and whose size in bytes it has, where this is known beforehand
//                 (otherwise KernelStep looks at the tensor when it is there);
//   of scratch    aligned, and within what the step asks for;
//
// and in the order of the calls
//
//   what is read  has been written: an out-slot by an earlier call, scratch byte for byte;
//   what is written is no in-slot, and not read or written through another argument of that call.
//
// At the end all out-slots must have been written. All of it is decided by intervals of bytes.
#include "plan/check_kernels.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "plan/plan_text.h"
#include "support/device_name.h"

namespace tvm_hetero {
namespace {

// Of tensors the bits are counted, in 63 of them.
constexpr int64_t kMostScratch = int64_t{1} << 60;

using KnownBytes = std::vector<std::optional<int64_t>>;

/*! \brief The size of each slot's tensor, where the plan says it. */
KnownBytes BytesOfSlots(const Plan& plan) {
  KnownBytes bytes(plan.slots.size());
  for (const InputPlan& input : plan.inputs) {
    bytes[input.slot] = TensorPlan{input.shape, input.dtype}.Bytes();
  }
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    if (!plan.slots[i].type) continue;
    int64_t typed = plan.slots[i].type->Bytes();
    if (bytes[i] && *bytes[i] != typed) {
      TVM_FFI_THROW(ValueError) << "plan: " << Quoted("slots", i, plan.slots[i].name) << " has "
                                << typed << " bytes, but its input " << *bytes[i];
    }
    bytes[i] = typed;
  }
  return bytes;
}

/*! \brief Bytes of scratch that have been written: intervals that do not touch, by their start. */
class Written {
 public:
  void Add(int64_t begin, int64_t end) {
    if (begin == end) return;
    auto next = spans_.upper_bound(begin);
    if (next != spans_.begin() && std::prev(next)->second >= begin) --next;
    while (next != spans_.end() && next->first <= end) {
      begin = std::min(begin, next->first);
      end = std::max(end, next->second);
      next = spans_.erase(next);
    }
    spans_[begin] = end;
  }

  bool Covers(int64_t begin, int64_t end) const {
    if (begin == end) return true;
    auto next = spans_.upper_bound(begin);
    return next != spans_.begin() && std::prev(next)->second >= end;
  }

 private:
  std::map<int64_t, int64_t> spans_;
};

class StepChecker {
 public:
  StepChecker(const Plan& plan, size_t step, const KnownBytes& slot_bytes)
      : plan_(plan),
        index_(step),
        step_(plan.steps[step]),
        slot_bytes_(slot_bytes),
        out_written_(step_.outs.size(), false) {}

  void Check() {
    CheckStep();
    for (size_t call = 0; call < step_.calls.size(); ++call) {
      CheckWrittenCount(call);
      for (size_t arg = 0; arg < step_.calls[call].args.size(); ++arg) CheckPlace(call, arg);
      CheckReads(call);
      CheckWrites(call);
    }
    for (size_t i = 0; i < out_written_.size(); ++i) {
      if (out_written_[i]) continue;
      TVM_FFI_THROW(ValueError) << "plan: " << Quoted("steps", index_, step_.name) << ": no call "
                                << "writes its out " << i << ", "
                                << Quoted("slots", step_.outs[i], plan_.slots[step_.outs[i]].name);
    }
  }

 private:
  /*! \brief What concerns the step as a whole. */
  void CheckStep() const {
    std::string row = Quoted("steps", index_, step_.name);
    DLDeviceType device = plan_.DeviceOfWorker(step_.worker).device_type;
    // Offsets are added to addresses on the host.
    if (device != kDLCPU && device != kDLCUDA && device != kDLROCM) {
      TVM_FFI_THROW(ValueError) << "plan: " << row << " runs kernels on "
                                << DeviceName(plan_.DeviceOfWorker(step_.worker))
                                << ", expected a CPU, CUDA or ROCm device";
    }
    if (step_.scratch < 0 || step_.scratch >= kMostScratch) {
      TVM_FFI_THROW(ValueError) << "plan: " << row << ": scratch is " << step_.scratch
                                << ", expected a number of bytes from 0 on, below 2^60";
    }
    for (int slot : step_.outs) {
      if (plan_.slots[slot].type) continue;
      TVM_FFI_THROW(ValueError) << "plan: " << Quoted("slots", slot, plan_.slots[slot].name)
                                << " has no shape and dtype, expected them, for the kernels of "
                                << row << " fill it";
    }
  }

  void CheckWrittenCount(size_t call) const {
    const CallPlan& row = step_.calls[call];
    if (row.written >= 1 && static_cast<size_t>(row.written) <= row.args.size()) return;
    TVM_FFI_THROW(ValueError) << "plan: " << QuotedCall(plan_, index_, call) << ": written is "
                              << row.written << ", expected from 1 to its " << row.args.size()
                              << " args";
  }

  /*! \brief That the argument's memory is there. */
  void CheckPlace(size_t call, size_t arg) const {
    const ArgPlan& row = step_.calls[call].args[arg];
    if (row.kind == ArgKind::kScratch) {
      CheckScratch(call, arg);
      return;
    }
    const bool in = row.kind == ArgKind::kIn;
    const std::vector<int>& slots = in ? step_.ins : step_.outs;
    if (row.where < 0 || static_cast<size_t>(row.where) >= slots.size()) {
      TVM_FFI_THROW(ValueError) << "plan: " << QuotedArg(plan_, index_, call, arg) << ": "
                                << (in ? "in" : "out") << " is " << row.where
                                << ", but the step has " << slots.size() << (in ? " ins" : " outs")
                                << " (numbered from 0)";
    }
    int slot = slots[row.where];
    std::optional<int64_t> expected = slot_bytes_[slot];
    if (!expected || *expected == row.type.Bytes()) return;
    TVM_FFI_THROW(ValueError) << "plan: " << QuotedArg(plan_, index_, call, arg) << " has "
                              << row.type.Bytes() << " bytes, expected the " << *expected << " of "
                              << Quoted("slots", slot, plan_.slots[slot].name);
  }

  void CheckScratch(size_t call, size_t arg) const {
    const ArgPlan& row = step_.calls[call].args[arg];
    if (row.where < 0 || row.where % kAlignment != 0) {
      TVM_FFI_THROW(ValueError) << "plan: " << QuotedArg(plan_, index_, call, arg)
                                << ": scratch is " << row.where << ", expected a multiple of "
                                << kAlignment;
    }
    if (row.type.Bytes() <= step_.scratch && row.where <= step_.scratch - row.type.Bytes()) return;
    TVM_FFI_THROW(ValueError) << "plan: " << QuotedArg(plan_, index_, call, arg) << ": "
                              << row.type.Bytes() << " bytes at " << row.where
                              << " end beyond the step's scratch of " << step_.scratch;
  }

  /*! \brief That what the call reads has been written. */
  void CheckReads(size_t call) const {
    const CallPlan& row = step_.calls[call];
    for (size_t arg = 0; arg + row.written < row.args.size(); ++arg) {
      const ArgPlan& read = row.args[arg];
      bool there = read.kind == ArgKind::kIn ||
                   (read.kind == ArgKind::kOut && out_written_[read.where]) ||
                   (read.kind == ArgKind::kScratch &&
                    scratch_written_.Covers(read.where, read.where + read.type.Bytes()));
      if (there) continue;
      TVM_FFI_THROW(ValueError) << "plan: " << QuotedArg(plan_, index_, call, arg) << " reads "
                                << Place(read) << ", which no earlier call of the step has written";
    }
  }

  /*! \brief That what the call writes is its own; and take note of it. */
  void CheckWrites(size_t call) {
    const CallPlan& row = step_.calls[call];
    for (size_t arg = row.args.size() - row.written; arg < row.args.size(); ++arg) {
      const ArgPlan& write = row.args[arg];
      if (write.kind == ArgKind::kIn) {
        TVM_FFI_THROW(ValueError) << "plan: " << QuotedArg(plan_, index_, call, arg) << " writes "
                                  << Place(write) << ", expected an out or scratch";
      }
      for (size_t other = 0; other < arg; ++other) {
        if (!Overlap(write, row.args[other])) continue;
        TVM_FFI_THROW(ValueError) << "plan: " << QuotedArg(plan_, index_, call, arg) << " writes "
                                  << Place(write) << ", where args[" << other << "] is too";
      }
    }
    for (size_t arg = row.args.size() - row.written; arg < row.args.size(); ++arg) {
      const ArgPlan& write = row.args[arg];
      if (write.kind == ArgKind::kOut) out_written_[write.where] = true;
      if (write.kind != ArgKind::kScratch) continue;
      scratch_written_.Add(write.where, write.where + write.type.Bytes());
    }
  }

  static bool Overlap(const ArgPlan& a, const ArgPlan& b) {
    if (a.kind != b.kind) return false;
    if (a.kind != ArgKind::kScratch) return a.where == b.where;
    return a.where < b.where + b.type.Bytes() && b.where < a.where + a.type.Bytes();
  }

  static std::string Place(const ArgPlan& arg) {
    std::string where = std::to_string(arg.where);
    if (arg.kind == ArgKind::kIn) return "in " + where;
    if (arg.kind == ArgKind::kOut) return "out " + where;
    return "scratch from " + where + " to " + std::to_string(arg.where + arg.type.Bytes());
  }

  const Plan& plan_;
  const size_t index_;
  const StepPlan& step_;
  const KnownBytes& slot_bytes_;
  std::vector<bool> out_written_;
  Written scratch_written_;
};

}  // namespace

void CheckKernels(const Plan& plan) {
  KnownBytes bytes = BytesOfSlots(plan);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].kind == StepKind::kKernels) StepChecker(plan, i, bytes).Check();
  }
}

}  // namespace tvm_hetero
