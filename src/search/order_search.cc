#include "search/order_search.h"

#include <algorithm>

namespace tvm_hetero::search {
namespace {

// A makespan this near its bound is the least: times are sums of floats.
constexpr double kRounding = 1 + 1e-12;

}  // namespace

bool OrderSearch::Run(const Activities& activities, double cutoff, bool any) {
  given_ = &activities;
  best_ = cutoff;
  any_ = any;
  floor_ = 0;
  for (double tail : activities.tails) floor_ = std::max(floor_, tail);
  for (double load : activities.loads) floor_ = std::max(floor_, load);
  found_.clear();
  Reset();
  const bool roomy = activities.EverythingFits();
  if (!roomy && few_) {
    memory_.Reset(activities);
    if (!memory_.Completable(0)) return false;
  }
  // Of several schedules the relaxation must name the quickest: its value is a bound.
  any_ = any && roomy;
  VisitActive();
  any_ = any;
  if (found_.empty() || roomy || FitsThroughout(found_)) return !found_.empty();
  if (!budget_->exhausted()) floor_ = best_;
  best_ = cutoff;
  found_.clear();
  Reset();
  VisitWaiting(0.0);
  return !found_.empty();
}

void OrderSearch::Reset() {
  const Activities& g = *given_;
  const int n = g.count();
  few_ = n <= MemoryOrder::kMost;
  seen_.Clear();
  bits_ = 0;
  placed_ = 0;
  done_ = false;
  start_.assign(n, kInfinity);
  end_.assign(n, kInfinity);
  head_.assign(n, 0.0);
  is_placed_.assign(n, 0);
  free_.assign(g.loads.size(), 0.0);
  free_stack_.clear();
  waiting_.resize(n);
  users_.assign(g.loads.size(), {});
  for (int a = 0; a < n; ++a) {
    waiting_[a] = static_cast<int>(g.before[a].size());
    for (int r : g.resources[a]) users_[r].push_back(a);
  }
}

void OrderSearch::VisitActive() {
  if (done_ || !budget_->Spend()) return;
  const Activities& g = *given_;
  if (placed_ == g.count()) return Keep();
  if (Hopeless(0.0) || Dominated(0.0, false)) return;
  int first = -1;
  std::vector<int> rivals;
  for (int a = 0; a < g.count(); ++a) {
    if (is_placed_[a] || waiting_[a] > 0) continue;
    rivals.push_back(a);
    if (first < 0 || head_[a] + g.seconds[a] < head_[first] + g.seconds[first]) first = a;
  }
  const double end = head_[first] + g.seconds[first];
  auto no_rival = [&](int a) {
    if (a == first) return false;
    if (head_[a] >= end) return true;
    for (int r : g.resources[a]) {
      for (int other : g.resources[first]) {
        if (r == other) return false;
      }
    }
    return true;
  };
  rivals.erase(std::remove_if(rivals.begin(), rivals.end(), no_rival), rivals.end());
  std::vector<std::pair<double, int>> ranked;
  for (int a : rivals) ranked.emplace_back(head_[a] - g.tails[a], a);
  std::sort(ranked.begin(), ranked.end());
  for (const auto& [rank, a] : ranked) {
    Put(a, Earliest(a));
    VisitActive();
    Take(a);
    if (done_ || budget_->exhausted()) return;
  }
}

void OrderSearch::VisitWaiting(double now) {
  if (done_ || !budget_->Spend()) return;
  const Activities& g = *given_;
  if (placed_ == g.count()) {
    if (!g.instant || FitsThroughout(start_)) Keep();
    return;
  }
  if (Hopeless(now) || Dominated(now, true)) return;
  if (few_ && !memory_.Completable(bits_)) return;
  std::vector<std::pair<double, int>> ranked;
  // Only what takes no time and is still to come can make room at the moment at which it starts.
  bool rescue = false;
  for (int a = 0; a < g.count(); ++a) {
    rescue |= !is_placed_[a] && g.seconds[a] <= 0;
    if (!is_placed_[a] && waiting_[a] == 0) ranked.emplace_back(head_[a] - g.tails[a], a);
  }
  std::sort(ranked.begin(), ranked.end());
  // What starts by `now` is placed once anything starts later, so its memory is known then.
  const bool later = !g.instant || Fits(now, -1);
  for (const auto& [rank, a] : ranked) {
    const double earliest = std::max(Earliest(a), now);
    std::vector<double> moments{earliest};
    for (int b = 0; b < g.count(); ++b) {
      if (is_placed_[b] && end_[b] > earliest) moments.push_back(end_[b]);
    }
    std::sort(moments.begin(), moments.end());
    moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
    for (double moment : moments) {
      if (moment + g.tails[a] >= best_) break;
      if (moment > now && !later) break;
      const bool fits = Fits(moment, a);
      if (!fits && !rescue) continue;
      Put(a, moment);
      VisitWaiting(moment);
      Take(a);
      if (done_ || budget_->exhausted()) return;
      if (fits) break;
    }
  }
}

/*!
 * \brief Whether another partial schedule with the same activities leaves the rest as much time.
 * Nothing more starts before `now`, so earlier times count as `now`.
 */
bool OrderSearch::Dominated(double now, bool waiting) {
  if (!few_) return false;
  const Activities& g = *given_;
  times_.clear();
  double last = now;
  for (int a = 0; a < g.count(); ++a) {
    if (!is_placed_[a]) continue;
    last = std::max(last, end_[a]);
    bool awaited = false;
    for (int b : g.after[a]) awaited |= !is_placed_[b];
    if (awaited) times_.push_back(std::max(now, end_[a]));
  }
  times_.push_back(last);
  for (double free : free_) times_.push_back(std::max(now, free));
  if (waiting) {
    times_.push_back(now);
    // Of what takes no time not all need be placed at this moment: only the same one compares.
    times_.push_back(g.instant ? -now : 0.0);
    for (const Stay& stay : g.stays) {
      double end = stay.closers.empty() ? 0.0 : now;
      for (int a : stay.closers) end = std::max(end, is_placed_[a] ? end_[a] : 0.0);
      times_.push_back(end);
    }
  }
  return seen_.Dominated(bits_, times_);
}

void OrderSearch::Keep() {
  double end = 0.0;
  for (double e : end_) end = std::max(end, e);
  if (end >= best_) return;
  best_ = end;
  found_ = start_;
  if (any_ || end <= floor_ * kRounding) done_ = true;
}

double OrderSearch::Earliest(int a) const {
  double start = 0.0;
  for (int b : given_->before[a]) start = std::max(start, end_[b]);
  for (int r : given_->resources[a]) start = std::max(start, free_[r]);
  return start;
}

void OrderSearch::Put(int a, double start) {
  free_stack_.emplace_back();
  for (int r : given_->resources[a]) {
    free_stack_.back().push_back(free_[r]);
    free_[r] = start + given_->seconds[a];
  }
  start_[a] = start;
  end_[a] = start + given_->seconds[a];
  is_placed_[a] = 1;
  bits_ ^= few_ ? uint64_t{1} << a : 0;
  ++placed_;
  for (int b : given_->after[a]) --waiting_[b];
}

void OrderSearch::Take(int a) {
  const std::vector<int>& busy = given_->resources[a];
  for (size_t i = 0; i < busy.size(); ++i) free_[busy[i]] = free_stack_.back()[i];
  free_stack_.pop_back();
  start_[a] = end_[a] = kInfinity;
  is_placed_[a] = 0;
  bits_ ^= few_ ? uint64_t{1} << a : 0;
  --placed_;
  for (int b : given_->after[a]) ++waiting_[b];
}

void OrderSearch::FindHeads(double now) {
  const Activities& g = *given_;
  for (int a : g.order) {
    if (is_placed_[a]) continue;
    double head = now;
    for (int b : g.before[a]) {
      head = std::max(head, is_placed_[b] ? end_[b] : head_[b] + g.seconds[b]);
    }
    for (int r : g.resources[a]) head = std::max(head, free_[r]);
    head_[a] = head;
  }
}

bool OrderSearch::Hopeless(double now) {
  FindHeads(now);
  for (int a : given_->order) {
    if (!is_placed_[a] && head_[a] + given_->tails[a] >= best_) return true;
  }
  return ResourceHopeless();
}

bool OrderSearch::ResourceHopeless() {
  const Activities& g = *given_;
  for (const std::vector<int>& users : users_) {
    by_head_.clear();
    for (int a : users) {
      if (!is_placed_[a]) by_head_.push_back(a);
    }
    if (by_head_.size() < 2) continue;
    std::sort(by_head_.begin(), by_head_.end(), [&](int a, int b) { return head_[a] > head_[b]; });
    double work = 0.0, rest = kInfinity;
    for (int a : by_head_) {
      work += g.seconds[a];
      rest = std::min(rest, g.tails[a] - g.seconds[a]);
      // Sums are made in another order than a schedule's: a bound that is equal but for rounding
      // cuts off nothing that is better by more than rounding.
      if (head_[a] + work + rest >= best_) return true;
    }
  }
  return false;
}

/*! \brief Whether what is in the memories at `moment` fits, with `extra` (or -1) begun then. */
bool OrderSearch::Fits(double moment, int extra) const {
  const Activities& g = *given_;
  std::vector<int64_t> held = g.weights;
  for (const Stay& stay : g.stays) {
    double begin = kInfinity, end = stay.closers.empty() ? kInfinity : 0.0;
    bool opened = false;
    for (int a : stay.openers) {
      begin = std::min(begin, start_[a]);
      opened |= a == extra;
    }
    for (int a : stay.closers) end = std::max(end, end_[a]);
    if (opened) begin = std::min(begin, moment);
    if (begin <= moment && end > moment) held[stay.memory] += stay.bytes;
  }
  for (int d = 0; d < problem_.devices; ++d) {
    if (problem_.capacity[d] >= 0 && held[d] > problem_.capacity[d]) return false;
  }
  return true;
}

/*! \brief Whether memory is kept at every moment of a whole schedule. */
bool OrderSearch::FitsThroughout(const std::vector<double>& starts) const {
  const Activities& g = *given_;
  double makespan = 0.0;
  for (int a = 0; a < g.count(); ++a) makespan = std::max(makespan, starts[a] + g.seconds[a]);
  for (double moment : starts) {
    std::vector<int64_t> held = g.weights;
    for (const Stay& stay : g.stays) {
      double begin = kInfinity, end = stay.closers.empty() ? makespan : 0.0;
      for (int a : stay.openers) begin = std::min(begin, starts[a]);
      for (int a : stay.closers) end = std::max(end, starts[a] + g.seconds[a]);
      if (begin <= moment && end > moment) held[stay.memory] += stay.bytes;
    }
    for (int d = 0; d < problem_.devices; ++d) {
      if (problem_.capacity[d] >= 0 && held[d] > problem_.capacity[d]) return false;
    }
  }
  return true;
}

}  // namespace tvm_hetero::search
