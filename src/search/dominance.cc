#include "search/dominance.h"

namespace tvm_hetero::search {
namespace {

// Partial schedules that are remembered: of one set, and in all.
constexpr size_t kMostOfOne = 32, kMost = 200000;

bool NoLater(const std::vector<double>& a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] > b[i]) return false;
  }
  return true;
}

}  // namespace

bool Dominance::Dominated(uint64_t placed, const std::vector<double>& times) {
  std::vector<std::vector<double>>& others = seen_[placed];
  for (const std::vector<double>& other : others) {
    if (NoLater(other, times)) return true;
  }
  if (others.size() < kMostOfOne && count_ < kMost) {
    others.push_back(times);
    ++count_;
  }
  return false;
}

}  // namespace tvm_hetero::search
