#include "executor/departure.h"

#include <algorithm>

namespace tvm_hetero {

Departure::Departure(const Plan& plan) : threads_(plan.workers.size()), left_(plan.workers.size()) {
  for (size_t i = 0; i < plan.workers.size(); ++i) {
    const bool has_thread = !plan.IsMeeting(static_cast<int>(i));
    cores_.push_back(has_thread ? plan.workers[i].cores : std::vector<int>{});
    if (has_thread) ++present_;
    left_[i].store(!has_thread);
  }
}

bool Departure::IsOn(size_t worker, int core) const {
  const std::vector<int>& planned = cores_[worker];
  const int settled = threads_[worker].core();
  // The other threads of a team are on the rest of its cores; they exchange among themselves only.
  if (settled >= 0 && planned.size() == 1) return settled == core;
  return std::find(planned.begin(), planned.end(), core) != planned.end();
}

bool Departure::Holds(int core) const {
  if (present_.load() == 0) return false;  // as ever but for a moment after a switch
  for (size_t worker = 0; worker < left_.size(); ++worker) {
    if (!left_[worker].load() && IsOn(worker, core)) return true;
  }
  return false;
}

void Departure::Stay(int worker) {
  if (left_[worker].exchange(false)) ++present_;
}

void Departure::Leave(int worker) {
  if (!left_[worker].exchange(true)) --present_;
  std::lock_guard<std::mutex> lock(mutex_);
  for (std::deque<Parker>* parkers : followers_) {
    for (Parker& parker : *parkers) parker.Unpark();
  }
}

void Departure::Follow(std::deque<Parker>* parkers) {
  std::lock_guard<std::mutex> lock(mutex_);
  followers_.push_back(parkers);
}

void Departure::Unfollow(const std::deque<Parker>* parkers) {
  std::lock_guard<std::mutex> lock(mutex_);
  followers_.erase(std::remove(followers_.begin(), followers_.end(), parkers), followers_.end());
}

}  // namespace tvm_hetero
