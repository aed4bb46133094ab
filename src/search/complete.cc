#include "search/complete.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace tvm_hetero::search {
namespace {

// Times are sums of floats: a limit may be exceeded by their rounding.
constexpr double kRounding = 1 + 1e-12;
// What is better by less than this part of the value is not looked for.
constexpr double kWorthwhile = 1 - 1e-9;

}  // namespace

CompleteSearch::CompleteSearch(const Problem& problem, const TvmHeteroSearchSymmetry& symmetry,
                               StepBudget* budget)
    : problem_(problem),
      budget_(budget),
      orders_(problem, budget),
      activities_(problem),
      symmetry_(problem, symmetry),
      place_(problem.parts, -1),
      home_(problem.members.rows(), -1),
      uses_(problem.devices, 0),
      touches_(problem.devices, 0),
      task_uses_(static_cast<size_t>(problem.tasks) * problem.devices, 0),
      hop_uses_(static_cast<size_t>(problem.tensors) * problem.devices * problem.devices, 0),
      arrows_(static_cast<size_t>(problem.devices) * problem.devices, 0),
      head_(problem.parts, 0.0),
      loads_(problem.links.resources(), 0.0),
      held_(problem.devices, 0),
      rest_seconds_(problem.parts + 1, 0.0),
      rest_spent_(problem.parts + 1, 0.0),
      usable_(problem.devices, false),
      limit_(problem.latency_limit * kRounding) {
  for (int i = problem.parts - 1; i >= 0; --i) {
    const int v = problem.topological[i];
    double seconds = kInfinity, spent = kInfinity;
    for (int d : problem.allowed[problem.group[v]]) {
      usable_[d] = true;
      seconds = std::min(seconds, problem.links.Cores(d).size() * problem.cell(v, d).seconds);
      spent = std::min(spent, Extra(d) * problem.cell(v, d).seconds);
    }
    rest_seconds_[i] = rest_seconds_[i + 1] + seconds;
    rest_spent_[i] = rest_spent_[i + 1] + spent;
  }
  // Of teams, what is shared is their cores.
  std::vector<bool> counted(problem.links.resources(), false);
  for (int d = 0; d < problem.devices; ++d) {
    for (int r : problem.links.Cores(d)) counted[r] = counted[r] || usable_[d];
  }
  usable_count_ = static_cast<int>(std::count(counted.begin(), counted.end(), true));
}

Found CompleteSearch::Run(double cutoff) {
  best_ = cutoff * kWorthwhile;
  if (Promising(0, 0.0)) Visit(0, 0.0);
  return found_;
}

/*! \brief Watts of a device while it is busy, above those while it is idle. */
double CompleteSearch::Extra(int device) const {
  return std::max(0.0, problem_.rates.watts[device] - problem_.rates.idle_watts[device]);
}

/*! \brief Place what comes after `depth` parts, given what the makespan is at least. */
void CompleteSearch::Visit(int depth, double makespan) {
  if (!budget_->Spend()) return;
  if (depth == problem_.parts) return Finish();
  const int v = problem_.topological[depth], g = problem_.group[v], fixed = home_[g];
  std::vector<std::tuple<double, double, int>> options;
  for (int d : problem_.allowed[g]) {
    if ((fixed >= 0 && d != fixed) || !symmetry_.MayUse(d, uses_)) continue;
    const double end = EarliestEnd(v, d);
    const double least = std::max(makespan, end + problem_.cell(v, d).tail);
    if (least == kInfinity) continue;
    Saved saved = Place(v, d, end);
    const double bound = std::max(least, LeastMakespan(depth + 1));
    if (Keeps(depth) && Promising(depth + 1, bound)) {
      options.emplace_back(LeastValue(depth + 1, bound), bound, d);
    }
    Take(v, d, saved);
  }
  std::sort(options.begin(), options.end());
  for (const auto& [value, bound, d] : options) {
    if (value >= best_ || budget_->exhausted()) return;
    home_[g] = d;
    Saved saved = Place(v, d, EarliestEnd(v, d));
    Visit(depth + 1, bound);
    Take(v, d, saved);
    home_[g] = fixed;
  }
}

double CompleteSearch::EarliestEnd(int part, int device) const {
  double ready = 0.0;
  for (const Input& input : problem_.inputs[part]) {
    const double delay = problem_.links.Delay(input.size, place_[input.maker], device);
    ready = std::max(ready, head_[input.maker] + delay);
  }
  return ready + problem_.cell(part, device).seconds;
}

CompleteSearch::Saved CompleteSearch::Place(int part, int device, double end) {
  Saved saved{loads_, held_, spent_, work_};
  place_[part] = device;
  head_[part] = end;
  ++uses_[device];
  ++touches_[device];
  Occupy(device, problem_.cell(part, device).seconds);
  Hold(part, device);
  ForHops(part, device, [&](const Input& input, int from, int to) {
    if (HopUses(input.tensor, from, to)++ > 0) return;
    ++touches_[from];
    ++touches_[to];
    const double seconds = problem_.links.HopSeconds(input.size, from, to);
    problem_.links.Engaged(from, to, [&](int r) { loads_[r] += seconds; });
    for (int d : {from, to}) {
      // No sum of shares where both ends have cores in common: it would count them twice.
      if (problem_.links.Engine(d)) continue;
      // Where nothing can run, hops may stop; such a device shares no work.
      if (usable_[d] && !problem_.links.teams()) work_ += seconds;
      spent_ += Extra(d) * seconds;
    }
    // In a memory of several it may be already: `Finish` counts.
    const bool own = !problem_.shares_memory[to];
    if (problem_.kind == kThroughput && own) held_[to] += problem_.size_bytes[input.size];
  });
  CountArrows(part, device, 1);
  return saved;
}

void CompleteSearch::Take(int part, int device, const Saved& saved) {
  CountArrows(part, device, -1);
  ForHops(part, device, [&](const Input& input, int from, int to) {
    if (--HopUses(input.tensor, from, to) > 0) return;
    --touches_[from];
    --touches_[to];
  });
  --TaskUses(part, device);
  --touches_[device];
  --uses_[device];
  place_[part] = -1;
  loads_ = saved.loads;
  held_ = saved.held;
  spent_ = saved.spent;
  work_ = saved.work;
}

template <typename Body>
void CompleteSearch::ForHops(int part, int device, Body body) {
  for (const Input& input : problem_.inputs[part]) {
    problem_.links.Route(input.size, place_[input.maker], device,
                         [&](int from, int to) { body(input, from, to); });
  }
}

int& CompleteSearch::HopUses(int tensor, int from, int to) {
  const size_t d = problem_.devices;
  return hop_uses_[(tensor * d + from) * d + to];
}

void CompleteSearch::Occupy(int device, double seconds) {
  for (int r : problem_.links.Cores(device)) {
    loads_[r] += seconds;
    work_ += seconds;
  }
  spent_ += Extra(device) * seconds;
}

/*! \brief Bytes that a part surely takes: weights; for throughput all that it makes, too. */
void CompleteSearch::Hold(int part, int device) {
  int64_t& held = held_[problem_.memory_of[device]];
  if (TaskUses(part, device)++ == 0) held += problem_.weights[part];
  if (problem_.kind != kThroughput) return;
  held += problem_.unread[part];
  for (int t : problem_.outputs[part]) held += problem_.size_bytes[problem_.size[t]];
}

/*! \brief How many parts of a part's task run in the memory of a device. */
int& CompleteSearch::TaskUses(int part, int device) {
  const size_t row = static_cast<size_t>(problem_.task[part]) * problem_.devices;
  return task_uses_[row + problem_.memory_of[device]];
}

void CompleteSearch::CountArrows(int part, int device, int by) {
  if (!problem_.acyclic || !problem_.staged[part]) return;
  for (const Input& input : problem_.inputs[part]) {
    const int from = place_[input.maker];
    if (problem_.staged[input.maker] && from != device) {
      arrows_[static_cast<size_t>(from) * problem_.devices + device] += by;
    }
  }
}

/*! \brief Whether memory, pipeline and the order among like placements are kept so far. */
bool CompleteSearch::Keeps(int depth) const {
  for (int d = 0; d < problem_.devices; ++d) {
    if (problem_.capacity[d] >= 0 && held_[d] > problem_.capacity[d]) return false;
  }
  return symmetry_.Canonical(place_, depth) && (!problem_.acyclic || Pipeline());
}

/*! \brief Whether the arrows between devices form no cycle. */
bool CompleteSearch::Pipeline() const {
  const int n = problem_.devices;
  std::vector<bool> gone(n, false);
  for (int left = n; left > 0;) {
    int before = left;
    for (int d = 0; d < n; ++d) {
      bool fed = gone[d];
      for (int e = 0; e < n && !fed; ++e) fed = !gone[e] && arrows_[static_cast<size_t>(e) * n + d];
      if (fed) continue;
      gone[d] = true;
      --left;
    }
    if (left == before) return false;
  }
  return true;
}

double CompleteSearch::LeastMakespan(int depth) const {
  double most = (work_ + rest_seconds_[depth]) / usable_count_;
  for (double load : loads_) most = std::max(most, load);
  return most;
}

/*! \brief Whether a placement with at least this makespan can be better than the best. */
bool CompleteSearch::Promising(int depth, double makespan) const {
  return makespan <= limit_ && LeastValue(depth, makespan) < best_;
}

double CompleteSearch::LeastValue(int depth, double makespan) const {
  if (problem_.kind == kThroughput) return LeastMakespan(depth);
  if (problem_.kind == kLatency) return makespan;
  double value = problem_.kind == kEnergy ? spent_ + rest_spent_[depth] : 0.0;
  for (int d = 0; d < problem_.devices; ++d) {
    if (touches_[d] == 0) continue;
    const Rates& rates = problem_.rates;
    const double rate = problem_.kind == kCost ? rates.price[d]
                                               : std::min(rates.watts[d], rates.idle_watts[d]);
    value += rate * makespan;
  }
  return value;
}

/*! \brief Look at the orders of a whole placement. */
void CompleteSearch::Finish() {
  if (problem_.kind == kThroughput) {
    const double period = *std::max_element(loads_.begin(), loads_.end());
    const auto& shares = problem_.shares_memory;
    if (std::find(shares.begin(), shares.end(), 1) != shares.end()) {
      if (!activities_.Lay(place_) || !activities_.EverythingFits()) return;
    }
    return Keep(period, period, nullptr);
  }
  if (!activities_.Lay(place_)) return;
  symmetry_.OrderLikeParts(place_, &activities_);
  activities_.Finish();
  if (!activities_.EachFits()) return;
  // With devices fixed, energy and cost are linear in the makespan.
  const auto [base, slope] = Line();
  double cutoff = std::nextafter(limit_, kInfinity);
  if (slope > 0) {
    cutoff = std::min(cutoff, (best_ - base) / slope);
  } else if (base >= best_) {
    return;
  }
  if (!orders_.Run(activities_, cutoff, slope <= 0)) return;
  Keep(base + slope * orders_.makespan(), orders_.makespan(), &orders_.starts());
}

/*! \brief (a, b) such that the value of the laid placement is a + b * makespan. */
std::pair<double, double> CompleteSearch::Line() const {
  if (problem_.kind == kLatency) return {0.0, 1.0};
  const Rates& rates = problem_.rates;
  double base = 0.0, slope = 0.0;
  for (int d = 0; d < problem_.devices; ++d) {
    if (touches_[d] == 0) continue;
    if (problem_.kind == kCost) {
      slope += rates.price[d];
    } else {
      base += (rates.watts[d] - rates.idle_watts[d]) * loads_[d];
      slope += rates.idle_watts[d];
    }
  }
  return {base, slope};
}

void CompleteSearch::Keep(double value, double makespan, const std::vector<double>* starts) {
  if (value >= best_) return;
  best_ = value * kWorthwhile;
  found_.value = value;
  found_.makespan = makespan;
  found_.placement = place_;
  found_.starts.clear();
  found_.hops.clear();
  if (starts == nullptr) return;
  found_.starts = *starts;
  found_.hops = activities_.hops;
  found_.seconds = activities_.seconds;
}

}  // namespace tvm_hetero::search
