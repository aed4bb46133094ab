// Waits are thinned out here, once, so that a run does as few of them as possible. A worker takes
// its steps in order. So (1) a step need not wait for an earlier one of its own worker; (2) of
// several producers on one other worker only the last matters; (3) nor does that one if an earlier
// step of this worker has already waited for it or for a later one.
//
// 'Last' and 'later' are meant in the order in which the other worker works. In a run that is the
// position in its list. In a stream (stages.h) step s waits in period t for what the other worker
// did in period t + stage(p) - stage(s), so periods are compared first. Steps are waited for and
// marked for empty batches too: otherwise (3) would lean on a wait that does not take place.
#include "program.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "stages.h"

namespace tvm_hetero {
namespace {

struct Place {
  int worker{-1};
  int position{-1};  //!< in the worker's order
};

/*! \brief A moment in another worker's work: periods from now, position in its order. */
using Moment = std::pair<int, int>;
constexpr Moment kNever{std::numeric_limits<int>::min(), -1};

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
  for (const ConstantPlan& constant : plan.constants) uses[constant.slot].is_constant = true;
  for (const OutputPlan& output : plan.outputs) uses[output.slot].is_output = true;
  return uses;
}

/*! \brief Each worker's steps in its order, without waits. */
Instructions InOrder(const Plan& plan, const std::vector<SlotUse>& slots) {
  Instructions workers(plan.workers.size());
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    Instruction instruction;
    instruction.step = static_cast<int>(i);
    for (int slot : Distinct(plan.steps[i].ins)) {
      if (slots[slot].made_by_step) instruction.reads.push_back(slot);
    }
    workers[plan.steps[i].worker].push_back(std::move(instruction));
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
  }

  void AddTo(Instructions* workers, const std::vector<int>& stages) const {
    for (size_t w = 0; w < workers->size(); ++w) {
      // How far this worker has already waited for each of the others.
      std::vector<Moment> awaited(workers->size(), kNever);
      for (Instruction& instruction : (*workers)[w]) {
        std::vector<Moment> needs = Needs(instruction.step, stages);
        for (size_t v = 0; v < needs.size(); ++v) {
          if (needs[v] <= awaited[v]) continue;
          awaited[v] = needs[v];
          Instruction& before = (*workers)[v][needs[v].second];
          instruction.waits_for.push_back(before.step);
          before.wakes.push_back(static_cast<int>(w));
        }
      }
    }
  }

 private:
  /*! \brief For each other worker the moment up to which a step needs it. */
  std::vector<Moment> Needs(int step, const std::vector<int>& stages) const {
    std::vector<Moment> needs(plan_.workers.size(), kNever);
    for (int slot : plan_.steps[step].ins) {
      int before = producer_[slot];
      if (before < 0) continue;
      const Place& place = places_[before];
      if (place.worker == plan_.steps[step].worker) continue;
      needs[place.worker] = std::max(
          needs[place.worker], Moment{stages[before] - stages[step], place.position});
    }
    return needs;
  }

  const Plan& plan_;
  std::vector<Place> places_;
  std::vector<int> producer_;  //!< of each slot; -1 for none
};

/*! \brief Stages, and on each worker the last instruction of a batch: the last of the last stage. */
void AddStages(Instructions* workers, const std::vector<int>& stages) {
  for (std::vector<Instruction>& instructions : *workers) {
    Instruction* last = nullptr;
    for (Instruction& instruction : instructions) {
      instruction.stage = stages[instruction.step];
      if (last == nullptr || instruction.stage >= last->stage) last = &instruction;
    }
    if (last != nullptr) last->ends_batch = true;
  }
}

}  // namespace

Program MakeProgram(const Plan& plan) {
  Program program;
  program.slots = SlotUses(plan);
  program.stages = Stages(plan);
  program.run = InOrder(plan, program.slots);
  program.stream = program.run;

  Waits waits(plan, program.run);
  waits.AddTo(&program.run, std::vector<int>(plan.steps.size(), 0));
  waits.AddTo(&program.stream, program.stages);
  AddStages(&program.stream, program.stages);

  for (int stage : program.stages) program.last_stage = std::max(program.last_stage, stage);
  for (const auto& worker : program.run) program.busy_workers += worker.empty() ? 0 : 1;
  return program;
}

}  // namespace tvm_hetero
