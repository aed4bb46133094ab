#include "board.h"

#include <limits>

namespace tvm_hetero {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Frame::Frame(size_t slot_count, size_t step_count, size_t call_count)
    : slots(slot_count),
      marks(step_count),
      record{std::vector<Span>(step_count, Span{kUnknown, kUnknown, kUnknown}),
             std::vector<double>(call_count, kUnknown), false} {}

Board::Board(const Plan& plan, const Program& program)
    : constants(plan.slots.size()), parkers(plan.workers.size()), epoch(Clock::now()) {
  for (int i = 0; i < program.frames; ++i) {
    frames.emplace_back(plan.slots.size(), plan.steps.size(), program.first_call.back());
  }
  ring.resize(frames.size(), nullptr);
}

}  // namespace tvm_hetero
