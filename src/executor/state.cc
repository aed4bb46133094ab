#include "executor/state.h"

#include <limits>

namespace tvm_hetero {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Span Span::Skipped() { return {kUnknown, kUnknown, kUnknown, -1, kUnknown, kUnknown}; }

Frame::Frame(const Plan& plan, const Program& program)
    : slots(plan.slots.size()),
      marks(plan.steps.size()),
      parts(plan.workers.size()),
      record{std::vector<Span>(plan.steps.size(), Span::Skipped()),
             std::vector<double>(program.first_call.back(), kUnknown), false} {}

ExecutorState::ExecutorState(const Plan& plan, const Program& program)
    : constants(plan.slots.size()),
      parkers(plan.workers.size()),
      busy(plan.workers.size()),
      pools(plan.slots.size()),
      epoch(Clock::now()),
      departure(std::make_shared<Departure>(plan)),
      threads(departure->threads()) {
  for (int i = 0; i < program.frames; ++i) frames.emplace_back(plan, program);
  for (const WorkerPlan& worker : plan.workers) {
    const std::vector<int>& members = worker.threads;
    boards.push_back(members.empty() ? nullptr : std::make_unique<LoopBoard>());
    for (size_t i = 1; i < members.size(); ++i) {
      boards.back()->AddHelper(&parkers[members[i]], &threads[members[i]]);
    }
  }
  for (const StepPlan& step : plan.steps) {
    for (int slot : step.outs) {
      if (step.kind == StepKind::kCall) continue;  // what is called brings its own
      Placement placement = plan.IsStaged(slot) ? Placement::kPinned : Placement::kPlain;
      pools[slot] = std::make_unique<BufferPool>(&allocated, placement);
    }
  }
}

}  // namespace tvm_hetero
