#include "executor/caller_spin.h"

#include <thread>

#include "executor/thread_setup.h"

namespace tvm_hetero {

CallerSpin::CallerSpin(const Plan& plan, const Program& program) {
  const auto busy = static_cast<unsigned>(program.busy_workers);
  for (size_t worker = 0; worker < plan.workers.size(); ++worker) {
    if (program.workers[worker].empty() && !plan.IsMeeting(static_cast<int>(worker))) continue;
    const std::vector<int>& cores = plan.workers[worker].cores;
    if (cores.empty()) has_spare_ = std::thread::hardware_concurrency() > busy;
    taken_.insert(taken_.end(), cores.begin(), cores.end());
  }
}

bool CallerSpin::IsAllowed() const {
  if (!last_is_short_.load() || !has_spare_) return false;
  const int here = CurrentCore();
  return here >= 0 && std::find(taken_.begin(), taken_.end(), here) == taken_.end();
}

}  // namespace tvm_hetero
