#include "executor/frames.h"

#include <algorithm>
#include <cstdint>

#include "support/device_name.h"

namespace tvm_hetero {
namespace {

// What the slots of all batches in flight may take in main memory, or in one of unknown size. A
// plan with many stages and large batches asks for more batches than any memory holds, while a few
// of those keep the workers busy as well.
constexpr int64_t kMainMemory = int64_t{2} << 30;

/*! \brief What a plan takes in one memory, bytes. */
struct Need {
  int64_t always{0};
  int64_t batch{0};  //!< of each batch in flight
};

/*! \brief Add what may be as large as 2^60 each, as often as a plan likes. */
void Add(int64_t bytes, int64_t* sum) {
  if (__builtin_add_overflow(*sum, bytes, sum)) *sum = INT64_MAX;
}

/*! \brief For each memory what the plan takes there; slots without a type are not known. */
std::vector<Need> Needs(const Plan& plan, const std::vector<SlotUse>& slots) {
  std::vector<Need> needs(plan.devices.size());
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    if (!plan.slots[i].type || slots[i].is_state) continue;
    const int64_t bytes = plan.slots[i].type->Bytes();
    Need& need = needs[plan.slots[i].device];
    Add(bytes, slots[i].is_constant ? &need.always : &need.batch);
    const bool is_held = slots[i].is_output && slots[i].made_by_step;
    for (int held = 0; is_held && held < kHeldOutputs; ++held) Add(bytes, &need.always);
  }
  for (size_t worker = 0; worker < plan.workers.size(); ++worker) {
    Add(plan.ScratchOfWorker(static_cast<int>(worker)), &needs[plan.workers[worker].device].always);
  }
  return needs;
}

/*! \brief How many batches fit into a memory. */
int64_t Fitting(const Need& need, const DevicePlan& device) {
  const int64_t batch = std::max<int64_t>(need.batch, 1);
  int64_t fitting = INT64_MAX;
  if (device.memory) fitting = std::max<int64_t>((*device.memory - need.always) / batch, 1);
  if (device.memory && !IsCpu(device.device)) return fitting;
  return std::min(fitting, std::max<int64_t>(kMainMemory / batch, 2));
}

}  // namespace

int Frames(const Plan& plan, const std::vector<SlotUse>& slots, int last_stage) {
  int64_t frames = int64_t{last_stage} + 2;
  const std::vector<Need> needs = Needs(plan, slots);
  for (size_t i = 0; i < needs.size(); ++i) {
    frames = std::min(frames, Fitting(needs[i], plan.devices[i]));
  }
  return static_cast<int>(frames);
}

}  // namespace tvm_hetero
