// Waits are thinned out here, once, so that a run does as few of them as possible. A worker takes
// its steps in order. So (1) a step need not wait for an earlier one of its own worker; (2) of
// several producers on one other worker only the last matters; (3) nor does that one if an earlier
// step of this worker has already waited for it or for a later one.
#include "program.h"

#include <algorithm>

namespace tvm_hetero {
namespace {

struct Place {
  int worker{-1};
  int position{-1};  //!< in the worker's order
};

std::vector<int> Distinct(std::vector<int> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

std::vector<SlotUse> SlotUses(const Plan& plan) {
  std::vector<SlotUse> uses(plan.slots.size());
  for (const StepPlan& step : plan.steps) {
    for (int slot : step.outs) uses[slot].made_by_step = true;
    for (int slot : Distinct(step.ins)) ++uses[slot].readers;
  }
  for (const OutputPlan& output : plan.outputs) uses[output.slot].is_output = true;
  return uses;
}

/*! \brief For each other worker the position up to which `step` needs it, -1 for not at all. */
std::vector<int> Needs(const Plan& plan, const StepPlan& step, const std::vector<int>& producer,
                       const std::vector<Place>& places) {
  std::vector<int> needs(plan.workers.size(), -1);
  for (int slot : step.ins) {
    if (producer[slot] < 0) continue;
    const Place& place = places[producer[slot]];
    if (place.worker != step.worker) {
      needs[place.worker] = std::max(needs[place.worker], place.position);
    }
  }
  return needs;
}

}  // namespace

Program MakeProgram(const Plan& plan) {
  Program program;
  program.slots = SlotUses(plan);
  program.workers.resize(plan.workers.size());

  // Each step's place in its worker's order, and each slot's producer.
  std::vector<Place> places(plan.steps.size());
  std::vector<int> producer(plan.slots.size(), -1);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const StepPlan& step = plan.steps[i];
    std::vector<Instruction>& order = program.workers[step.worker];
    places[i] = Place{step.worker, static_cast<int>(order.size())};
    Instruction instruction;
    instruction.step = static_cast<int>(i);
    for (int slot : Distinct(step.ins)) {
      if (program.slots[slot].made_by_step) instruction.reads.push_back(slot);
    }
    order.push_back(instruction);
    for (int slot : step.outs) producer[slot] = static_cast<int>(i);
  }

  // Waits, thinned out: `awaited[v]` is how far this worker has already waited for worker v.
  for (size_t w = 0; w < plan.workers.size(); ++w) {
    std::vector<int> awaited(plan.workers.size(), -1);
    for (Instruction& instruction : program.workers[w]) {
      std::vector<int> needs = Needs(plan, plan.steps[instruction.step], producer, places);
      for (size_t v = 0; v < needs.size(); ++v) {
        if (needs[v] <= awaited[v]) continue;
        awaited[v] = needs[v];
        Instruction& before = program.workers[v][needs[v]];
        instruction.waits_for.push_back(before.step);
        before.wakes.push_back(static_cast<int>(w));
      }
    }
  }
  return program;
}

}  // namespace tvm_hetero
