#include "executor/stages.h"

#include <algorithm>

namespace tvm_hetero {

std::vector<int> Stages(const Plan& plan) {
  std::vector<int> producer(plan.slots.size(), -1);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (int slot : plan.steps[i].outs) producer[slot] = static_cast<int>(i);
  }
  // The list of steps keeps each worker's order, but not every step stands behind its producers:
  // go over it until nothing changes. Once is enough for a sorted list, and it always ends, as the
  // steps of a checked plan wait for each other in no circle.
  std::vector<int> stages(plan.steps.size(), 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      const StepPlan& step = plan.steps[i];
      int stage = stages[i];
      for (int slot : step.ins) {
        if (producer[slot] < 0) continue;
        const int from = plan.ThreadOf(plan.steps[producer[slot]].worker);
        bool crosses = from != plan.ThreadOf(step.worker);
        stage = std::max(stage, stages[producer[slot]] + (crosses ? 1 : 0));
      }
      changed = changed || stage != stages[i];
      stages[i] = stage;
    }
  }
  return stages;
}

}  // namespace tvm_hetero
