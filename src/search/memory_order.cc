#include "search/memory_order.h"

#include <stdexcept>

namespace tvm_hetero::search {
namespace {

// Sets that are looked at for one placement.
constexpr size_t kMostSets = 100000;

uint64_t Bits(const std::vector<int>& row) {
  uint64_t bits = 0;
  for (int a : row) bits |= uint64_t{1} << a;
  return bits;
}

}  // namespace

void MemoryOrder::Reset(const Activities& activities) {
  given_ = &activities;
  const int n = activities.count();
  if (n > kMost) throw std::invalid_argument("more activities than bits");
  all_ = n == kMost ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
  known_.clear();
  stays_.clear();
  before_.clear();
  for (const Stay& stay : activities.stays) {
    stays_.push_back({stay.memory, stay.bytes, Bits(stay.openers), Bits(stay.closers)});
  }
  for (const std::vector<int>& row : activities.before) before_.push_back(Bits(row));
}

bool MemoryOrder::Completable(uint64_t placed) {
  if (placed == all_) return true;
  const auto known = known_.find(placed);
  if (known != known_.end()) return known->second;
  if (known_.size() >= kMostSets) return true;
  bool found = false;
  for (int a = 0; a < given_->count() && !found; ++a) {
    const uint64_t bit = uint64_t{1} << a;
    if ((placed & bit) != 0 || (before_[a] & ~placed) != 0) continue;
    if (given_->seconds[a] > 0 && !Fits(placed, a)) continue;
    found = Completable(placed | bit);
  }
  known_[placed] = found;
  return found;
}

/*! \brief Whether memory is kept while `next` is carried out after what is in `placed`. */
bool MemoryOrder::Fits(uint64_t placed, int next) const {
  const uint64_t begun = placed | uint64_t{1} << next;
  std::vector<int64_t> held = given_->weights;
  for (const Users& stay : stays_) {
    const bool gone = stay.closers != 0 && (stay.closers & ~placed) == 0;
    if ((stay.openers & begun) != 0 && !gone) held[stay.memory] += stay.bytes;
  }
  for (int d = 0; d < problem_.devices; ++d) {
    if (problem_.capacity[d] >= 0 && held[d] > problem_.capacity[d]) return false;
  }
  return true;
}

}  // namespace tvm_hetero::search
