// Checks of a plan, in the order of the functions below: names, indices, shapes, who fills each
// slot, devices, workers that are alike (check_alike.cc), the memory that kernels are given
// (check_kernels.cc), and deadlock.
//
// Deadlock. A step waits for two kinds of other steps: the one before it on its worker, and those
// that fill its in-slots. The executor gets stuck exactly when these 'waits for' edges have a
// cycle: on an acyclic graph a step whose predecessors have all ended can always start, so by
// induction all end; on a cycle none can be the first to start. (A copy engine is a worker as any
// other, so this holds for it too.)
#include <tvm/ffi/error.h>
#include <tvm_hetero/plan.h>

#include <algorithm>
#include <set>

#include "plan/check_alike.h"
#include "plan/check_kernels.h"
#include "plan/check_meetings.h"
#include "plan/plan_text.h"
#include "support/device_name.h"

namespace tvm_hetero {
namespace {

template <typename Row>
void CheckNames(const std::vector<Row>& rows, const char* kind) {
  std::set<std::string> seen;
  for (const Row& row : rows) {
    if (!seen.insert(row.name).second) {
      TVM_FFI_THROW(ValueError) << "plan: two " << kind << " are named '" << row.name
                                << "', expected different names";
    }
  }
}

void CheckIndex(const std::string& row, const char* key, int index, size_t size,
                const char* list) {
  if (index < 0 || static_cast<size_t>(index) >= size) {
    TVM_FFI_THROW(ValueError) << "plan: " << row << ": " << key << " is " << index << ", but there "
                              << (size == 1 ? "is " : "are ") << size << " " << list
                              << " (numbered from 0)";
  }
}

template <typename Row>
void CheckSlotOf(const Plan& plan, const std::vector<Row>& rows, const char* kind) {
  for (size_t i = 0; i < rows.size(); ++i) {
    CheckIndex(Quoted(kind, i, rows[i].name), "slot", rows[i].slot, plan.slots.size(), "slots");
  }
}

void CheckIndices(const Plan& plan) {
  for (size_t i = 0; i < plan.workers.size(); ++i) {
    CheckIndex(Quoted("workers", i, plan.workers[i].name), "device", plan.workers[i].device,
               plan.devices.size(), "devices");
  }
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    CheckIndex(Quoted("slots", i, plan.slots[i].name), "device", plan.slots[i].device,
               plan.devices.size(), "devices");
  }
  CheckSlotOf(plan, plan.inputs, "inputs");
  CheckSlotOf(plan, plan.constants, "constants");
  CheckSlotOf(plan, plan.outputs, "outputs");
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const StepPlan& step = plan.steps[i];
    std::string row = Quoted("steps", i, step.name);
    CheckIndex(row, "worker", step.worker, plan.workers.size(), "workers");
    for (int slot : step.ins) CheckIndex(row, "an in-slot", slot, plan.slots.size(), "slots");
    for (int slot : step.outs) CheckIndex(row, "an out-slot", slot, plan.slots.size(), "slots");
    if (step.kind == StepKind::kCopy) {
      CheckIndex(row, "to_device", step.to_device, plan.devices.size(), "devices");
    }
  }
}

/*! \brief Sizes from 0 on, and a size in bits below 2^63, on which all that is computed relies. */
void CheckShape(const std::string& row, const std::vector<int64_t>& shape, int64_t bits) {
  for (int64_t size : shape) {
    if (size < 0) {
      TVM_FFI_THROW(ValueError) << "plan: " << row << ": shape has " << size
                                << ", expected sizes from 0 on";
    }
    // A size of 0 does not excuse the others: their strides are computed all the same.
    if (__builtin_mul_overflow(bits, std::max<int64_t>(size, 1), &bits)) {
      TVM_FFI_THROW(ValueError) << "plan: " << row << ": shape is too large, expected less than "
                                << "2^63 bits";
    }
  }
}

void CheckType(const std::string& row, const TensorPlan& type) {
  CheckShape(row, type.shape, static_cast<int64_t>(type.dtype.bits) * type.dtype.lanes);
}

void CheckShapes(const Plan& plan) {
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const InputPlan& input = plan.inputs[i];
    CheckType(Quoted("inputs", i, input.name), TensorPlan{input.shape, input.dtype});
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const OutputPlan& output = plan.outputs[i];
    if (output.shape) CheckShape(Quoted("outputs", i, output.name), *output.shape, 64);
  }
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    if (plan.slots[i].type) CheckType(Quoted("slots", i, plan.slots[i].name), *plan.slots[i].type);
  }
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (size_t c = 0; c < plan.steps[i].calls.size(); ++c) {
      for (size_t a = 0; a < plan.steps[i].calls[c].args.size(); ++a) {
        CheckType(QuotedArg(plan, i, c, a), plan.steps[i].calls[c].args[a].type);
      }
    }
  }
}

/*! \brief Of an axis that the output has, in memory that who hands it over can read. */
void CheckLength(const Plan& plan, const OutputPlan& output, const std::string& row) {
  const auto& [slot, axis] = *output.length;
  CheckIndex(row, "the slot of a length", slot, plan.slots.size(), "slots");
  CheckIndex(row, "the axis of a length", axis, output.shape ? output.shape->size() : 0, "axes");
  const std::optional<TensorPlan>& type = plan.slots[slot].type;
  bool is_number = type && type->Bytes() == 8 && type->dtype.code == kDLInt;
  if (!is_number || type->dtype.bits != 64 || plan.DeviceOfSlot(slot).device_type != kDLCPU) {
    TVM_FFI_THROW(ValueError) << "plan: " << row << ": its length is in "
                              << Quoted("slots", slot, plan.slots[slot].name)
                              << ", expected one int64 in main memory";
  }
}

void CheckLengths(const Plan& plan) {
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const OutputPlan& output = plan.outputs[i];
    if (output.length) CheckLength(plan, output, Quoted("outputs", i, output.name));
  }
}

/*! \brief Who fills each slot, as text; throws where two do. */
std::vector<std::string> Fillers(const Plan& plan) {
  std::vector<std::string> filler(plan.slots.size());
  auto fill = [&](int slot, const std::string& by) {
    if (!filler[slot].empty()) {
      TVM_FFI_THROW(ValueError) << "plan: " << Quoted("slots", slot, plan.slots[slot].name)
                                << " is filled twice, by " << filler[slot] << " and by " << by
                                << ", expected exactly one";
    }
    filler[slot] = by;
  };
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    fill(plan.inputs[i].slot, Quoted("inputs", i, plan.inputs[i].name));
  }
  for (size_t i = 0; i < plan.constants.size(); ++i) {
    fill(plan.constants[i].slot, Quoted("constants", i, plan.constants[i].name));
  }
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (int slot : plan.steps[i].outs) fill(slot, Quoted("steps", i, plan.steps[i].name));
  }
  return filler;
}

void CheckFilled(const Plan& plan) {
  std::vector<std::string> filler = Fillers(plan);
  auto read = [&](int slot, const std::string& by) {
    if (filler[slot].empty()) {
      TVM_FFI_THROW(ValueError) << "plan: " << by << " reads "
                                << Quoted("slots", slot, plan.slots[slot].name)
                                << ", which no input, constant or step fills";
    }
  };
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (int slot : plan.steps[i].ins) read(slot, Quoted("steps", i, plan.steps[i].name));
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    read(plan.outputs[i].slot, Quoted("outputs", i, plan.outputs[i].name));
    if (plan.outputs[i].length) read(plan.outputs[i].length->slot, "the length of an output");
  }
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    read(static_cast<int>(i), "the list of slots");  // a slot that nobody fills is a mistake too
  }
}

/*! \brief How many calls of kernels are given a step's `in`-th slot. */
int CallsThatRead(const StepPlan& step, size_t in) {
  int calls = 0;
  for (const CallPlan& call : step.calls) {
    calls += std::any_of(call.args.begin(), call.args.end(), [&](const ArgPlan& arg) {
      return arg.kind == ArgKind::kIn && arg.where == static_cast<int64_t>(in);
    });
  }
  return calls;
}

/*! \brief A state is written by the call that reads it, so there may be no other reader. */
void CheckStates(const Plan& plan) {
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const InputPlan& input = plan.inputs[i];
    if (!input.is_state) continue;
    int readers = 0;
    for (const StepPlan& step : plan.steps) {
      for (size_t in = 0; in < step.ins.size(); ++in) {
        if (step.ins[in] != input.slot) continue;
        readers += step.kind == StepKind::kKernels ? CallsThatRead(step, in) : 2;
      }
    }
    for (const OutputPlan& output : plan.outputs) {
      readers += output.slot == input.slot;
      readers += output.length && output.length->slot == input.slot;
    }
    if (readers != 1) {
      TVM_FFI_THROW(ValueError) << "plan: " << Quoted("inputs", i, input.name)
                                << " is a state, expected exactly one call of a kernel to read it "
                                << "(and write it), and no copy and no output";
    }
  }
}

void CheckSlotDevice(const Plan& plan, size_t step, int slot, DLDevice expected) {
  DLDevice actual = plan.DeviceOfSlot(slot);
  if (SameDevice(actual, expected)) return;
  TVM_FFI_THROW(ValueError) << "plan: " << Quoted("steps", step, plan.steps[step].name)
                            << " works on " << DeviceName(expected) << ", but "
                            << Quoted("slots", slot, plan.slots[slot].name) << " is on "
                            << DeviceName(actual) << ": put a copy step between them";
}

void CheckDevices(const Plan& plan) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const StepPlan& step = plan.steps[i];
    if (step.kind != StepKind::kCopy) {
      DLDevice device = plan.DeviceOfWorker(step.worker);
      for (int slot : step.ins) CheckSlotDevice(plan, i, slot, device);
      for (int slot : step.outs) CheckSlotDevice(plan, i, slot, device);
      continue;
    }
    if (step.ins.size() != 1 || step.outs.size() != 1) {
      TVM_FFI_THROW(ValueError) << "plan: " << Quoted("steps", i, step.name) << " copies "
                                << step.ins.size() << " slots into " << step.outs.size()
                                << ", expected one into one";
    }
    CheckSlotDevice(plan, i, step.outs[0], plan.devices[step.to_device].device);
  }
}

/*! \brief For each step the steps that it waits for: those before it, and its producers. */
std::vector<std::vector<int>> WaitsFor(const Plan& plan) {
  std::vector<int> producer(plan.slots.size(), -1);
  std::vector<int> last(plan.workers.size(), -1);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (int slot : plan.steps[i].outs) producer[slot] = static_cast<int>(i);
  }
  std::vector<std::vector<int>> waits(plan.steps.size());
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (int thread : plan.ThreadsOf(plan.steps[i].worker)) {
      if (last[thread] >= 0) waits[i].push_back(last[thread]);
      last[thread] = static_cast<int>(i);
    }
    for (int slot : plan.steps[i].ins) {
      if (producer[slot] >= 0) waits[i].push_back(producer[slot]);
    }
  }
  return waits;
}

/*! \brief Remove steps that can end until none can; what remains is stuck (Kahn 1962). */
std::vector<bool> Stuck(const std::vector<std::vector<int>>& waits) {
  std::vector<std::vector<int>> waiters(waits.size());
  std::vector<size_t> missing(waits.size());
  std::vector<int> ready;
  for (size_t i = 0; i < waits.size(); ++i) {
    missing[i] = waits[i].size();
    for (int before : waits[i]) waiters[before].push_back(static_cast<int>(i));
    if (missing[i] == 0) ready.push_back(static_cast<int>(i));
  }
  std::vector<bool> stuck(waits.size(), true);
  while (!ready.empty()) {
    int step = ready.back();
    ready.pop_back();
    stuck[step] = false;
    for (int waiter : waiters[step]) {
      if (--missing[waiter] == 0) ready.push_back(waiter);
    }
  }
  return stuck;
}

void CheckNoDeadlock(const Plan& plan) {
  std::vector<std::vector<int>> waits = WaitsFor(plan);
  std::vector<bool> stuck = Stuck(waits);
  auto first = std::find(stuck.begin(), stuck.end(), true);
  if (first == stuck.end()) return;
  // Every stuck step waits for a stuck step, so walking backwards must come round to a cycle.
  std::vector<int> path{static_cast<int>(first - stuck.begin())};
  auto repeat = path.end();
  while (repeat == path.end()) {
    const std::vector<int>& before = waits[path.back()];
    int next = *std::find_if(before.begin(), before.end(), [&](int s) { return stuck[s]; });
    repeat = std::find(path.begin(), path.end(), next);
    if (repeat == path.end()) {
      path.push_back(next);
      repeat = path.end();
    }
  }
  std::string cycle;
  for (auto step = repeat; step != path.end(); ++step) {
    const StepPlan& row = plan.steps[*step];
    cycle += "'" + row.name + "' (worker '" + plan.workers[row.worker].name + "') waits for ";
  }
  TVM_FFI_THROW(ValueError) << "plan: deadlock: " << cycle << "'" << plan.steps[*repeat].name
                            << "'. Order each worker's steps so that no wait is circular";
}

}  // namespace

void CheckPlan(const Plan& plan) {
  CheckNames(plan.devices, "devices");
  CheckNames(plan.workers, "workers");
  CheckNames(plan.inputs, "inputs");
  CheckNames(plan.outputs, "outputs");
  CheckIndices(plan);
  CheckShapes(plan);
  CheckLengths(plan);
  CheckFilled(plan);
  CheckStates(plan);
  CheckDevices(plan);
  CheckAlike(plan);
  CheckMeetings(plan);
  CheckKernels(plan);
  CheckNoDeadlock(plan);
}

}  // namespace tvm_hetero
