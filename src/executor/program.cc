// Waits are thinned out here, once, so that a batch does as few of them as possible. Within a frame
// a worker's steps are taken in order. So (1) a step need not wait for an earlier one of its own
// worker; (2) of several producers on one other worker only the last in its order matters; (3) nor
// does that one if an earlier step of this worker has already waited for it or for a later one.
// Between frames nothing is waited for: each has tensors and marks of its own.
#include "executor/program.h"

#include <algorithm>
#include <utility>

#include "executor/frames.h"
#include "executor/stages.h"

namespace tvm_hetero {
namespace {

/*! \brief Where a step stands: the worker whose thread runs it, and its position there. */
struct Place {
  int worker;
  int position;
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
  for (const InputPlan& input : plan.inputs) uses[input.slot].is_state = input.is_state;
  for (const ConstantPlan& constant : plan.constants) uses[constant.slot].is_constant = true;
  for (const OutputPlan& output : plan.outputs) {
    uses[output.slot].is_output = true;
    if (output.length) uses[output.length->slot].is_output = true;
  }
  return uses;
}

/*! \brief Each worker's steps in its order, without waits. */
Instructions InOrder(const Plan& plan, const std::vector<SlotUse>& slots,
                     const std::vector<int>& stages) {
  Instructions workers(plan.workers.size());
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    Instruction instruction;
    instruction.step = static_cast<int>(i);
    instruction.stage = stages[i];
    for (int slot : Distinct(plan.steps[i].ins)) {
      if (slots[slot].made_by_step) instruction.reads.push_back(slot);
    }
    workers[plan.ThreadOf(plan.steps[i].worker)].push_back(std::move(instruction));
  }
  return workers;
}

/*! \brief Adds waits to instructions that stand in order. */
class Waits {
 public:
  Waits(const Plan& plan, const Instructions& workers)
      : plan_(plan), places_(plan.steps.size()), producer_(plan.slots.size(), -1) {
    for (size_t w = 0; w < workers.size(); ++w) {
      for (size_t position = 0; position < workers[w].size(); ++position) {
        places_[workers[w][position].step] =
            Place{static_cast<int>(w), static_cast<int>(position)};
      }
    }
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      for (int slot : plan.steps[i].outs) producer_[slot] = static_cast<int>(i);
    }
    FindHelped();
  }

  void AddTo(Instructions* workers) const {
    for (size_t w = 0; w < workers->size(); ++w) {
      // How far this worker has already waited for each of the others.
      std::vector<int> awaited(workers->size(), -1);
      for (Instruction& instruction : (*workers)[w]) {
        std::vector<int> needs = Needs(instruction.step);
        for (size_t v = 0; v < needs.size(); ++v) {
          if (needs[v] <= awaited[v]) continue;
          awaited[v] = needs[v];
          Instruction& before = (*workers)[v][needs[v]];
          instruction.waits_for.push_back(before.step);
          for (int waiting : plan_.PartsOf(static_cast<int>(w))) before.wakes.push_back(waiting);
        }
      }
    }
    for (auto& worker : *workers) {
      for (Instruction& instruction : worker) instruction.wakes = Distinct(instruction.wakes);
    }
  }

 private:
  /*! \brief For each step the last one before it in whose meeting its thread has helped. */
  void FindHelped() {
    std::vector<int> last(plan_.workers.size(), -1);
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const std::vector<int> threads = plan_.ThreadsOf(plan_.steps[i].worker);
      helped_.push_back(last[threads.front()]);
      for (size_t t = 1; t < threads.size(); ++t) last[threads[t]] = static_cast<int>(i);
    }
  }

  /*! \brief For each other thread the position up to which a step needs it; -1: not at all. */
  std::vector<int> Needs(int step) const {
    std::vector<int> needs(plan_.workers.size(), -1);
    auto add = [&](int before) {
      if (before < 0 || places_[before].worker == places_[step].worker) return;
      int& need = needs[places_[before].worker];
      need = std::max(need, places_[before].position);
    };
    for (int slot : plan_.steps[step].ins) add(producer_[slot]);
    add(helped_[step]);
    return needs;
  }

  const Plan& plan_;
  std::vector<Place> places_;
  std::vector<int> producer_;  //!< of each slot; -1 for none
  std::vector<int> helped_;    //!< of each step; -1 for none
};

}  // namespace

Program MakeProgram(const Plan& plan) {
  Program program;
  program.slots = SlotUses(plan);
  program.stages = Stages(plan);
  program.workers = InOrder(plan, program.slots, program.stages);
  Waits(plan, program.workers).AddTo(&program.workers);

  for (int stage : program.stages) program.last_stage = std::max(program.last_stage, stage);
  for (const auto& worker : program.workers) program.busy_workers += worker.empty() ? 0 : 1;
  program.frames = Frames(plan, program.slots, program.last_stage);
  size_t calls = 0;
  for (const StepPlan& step : plan.steps) {
    program.first_call.push_back(calls);
    calls += step.calls.size();
  }
  program.first_call.push_back(calls);
  return program;
}

}  // namespace tvm_hetero
