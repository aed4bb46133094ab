#include "executor/departure.h"

#include <algorithm>

namespace tvm_hetero {

Departure::Departure(const Plan& plan) : left_(plan.workers.size()) {
  for (size_t i = 0; i < plan.workers.size(); ++i) {
    const bool has_thread = !plan.IsMeeting(static_cast<int>(i));
    cores_.push_back(has_thread ? plan.workers[i].cores : std::vector<int>{});
  }
}

std::vector<int> Departure::WorkersOn(const std::vector<int>& cores) const {
  std::vector<int> found;
  for (size_t worker = 0; worker < cores_.size(); ++worker) {
    const std::vector<int>& theirs = cores_[worker];
    const bool is_there = std::any_of(cores.begin(), cores.end(), [&](int core) {
      return std::find(theirs.begin(), theirs.end(), core) != theirs.end();
    });
    if (is_there) found.push_back(static_cast<int>(worker));
  }
  return found;
}

void Departure::Leave(int worker) {
  left_[worker].store(true);
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
