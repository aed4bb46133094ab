#include <tvm_hetero/plan.h>

#include <algorithm>

#include "support/device_name.h"

namespace tvm_hetero {

int64_t TensorPlan::Bytes() const {
  int64_t bits = static_cast<int64_t>(dtype.bits) * dtype.lanes;
  for (int64_t size : shape) bits *= size;
  return (bits + 7) / 8;
}

std::vector<int> Plan::PartsOf(int worker) const {
  std::vector<int> parts{worker};
  const std::optional<int>& alike = workers[worker].alike;
  for (size_t other = 0; alike && other < workers.size(); ++other) {
    const bool is_other = other != static_cast<size_t>(worker);
    if (is_other && workers[other].alike == alike) parts.push_back(static_cast<int>(other));
  }
  return parts;
}

bool Plan::IsAloneOnCores(int worker) const {
  const std::vector<int>& cores = workers[worker].cores;
  for (size_t other = 0; other < workers.size(); ++other) {
    if (static_cast<int>(other) == worker || IsMeeting(static_cast<int>(other))) continue;
    for (int core : workers[other].cores) {
      if (std::find(cores.begin(), cores.end(), core) != cores.end()) return false;
    }
  }
  return true;
}

int64_t Plan::ScratchOfWorker(int worker) const {
  const std::vector<int> parts = PartsOf(worker);
  int64_t bytes = 0;
  for (const StepPlan& step : steps) {
    const int thread = ThreadOf(step.worker);
    bool is_run = std::find(parts.begin(), parts.end(), thread) != parts.end();
    if (is_run) bytes = std::max(bytes, step.scratch);
  }
  return bytes;
}

bool Plan::IsStaged(int slot) const {
  if (!IsCpu(DeviceOfSlot(slot))) return false;
  for (const StepPlan& step : steps) {
    if (step.kind != StepKind::kCopy) continue;
    if (step.ins[0] == slot && !IsCpu(DeviceOfSlot(step.outs[0]))) return true;
    if (step.outs[0] == slot && !IsCpu(DeviceOfSlot(step.ins[0]))) return true;
  }
  return false;
}

}  // namespace tvm_hetero
