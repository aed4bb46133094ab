#include "search/loads.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace tvm_hetero::search {
namespace {

// Any load in ticks stays below this; its square, times the number of resources, fits 128 bits.
constexpr double kMostTicks = 0x1p50;
// Entries by (part or tensor, device) beyond which steps miss the caches; what they take then.
constexpr size_t kCached = 200000;
constexpr int kMissing = 4;
// Powers of e at which a sum has few digits left, and beyond which it would not be a number.
constexpr double kFar = 10.0, kMostPower = 600.0;

}  // namespace

Loads::Loads(const Problem& problem, const int32_t* placement)
    : problem_(&problem),
      device_(problem.parts, -1),
      readers_on_(static_cast<size_t>(problem.tensors) * problem.devices, 0),
      holders_(static_cast<size_t>(problem.tasks) * problem.devices, 0),
      comings_(static_cast<size_t>(problem.tensors) * problem.devices, 0),
      bytes_(problem.devices, 0),
      leaves_(1),
      marked_(problem.devices, 0),
      charge_(readers_on_.size() + problem.cells.size() > kCached ? kMissing : 1) {
  const Problem& p = problem;
  ChooseTicks();
  while (leaves_ < p.links.resources()) leaves_ *= 2;
  tree_.assign(2 * static_cast<size_t>(leaves_), 0);
  terms_.assign(p.links.resources(), 0.0);
  is_changed_.assign(p.links.resources(), 0);
  if (p.acyclic) flows_.assign(static_cast<size_t>(p.devices) * p.devices, 0);
  for (int d = 0; d < p.devices; ++d) rank_.push_back(d);
  ReadPlacement(placement);
}

/*! \brief Make ticks as fine as the largest load allows that any placement can have. */
void Loads::ChooseTicks() {
  const Problem& p = *problem_;
  double most = 0.0;
  for (int v = 0; v < p.parts; ++v) {
    double longest = 0.0;
    for (int d : p.allowed[p.group[v]]) longest = std::max(longest, p.cell(v, d).seconds);
    most += longest;
  }
  for (int t = 0; t < p.tensors; ++t) {
    double longest = 0.0;
    for (int kind = 0; kind < p.links.kinds(); ++kind) {
      longest = std::max(longest, p.links.KindSeconds(p.size[t], kind));
    }
    // A tensor passes a device at most once a way in and a way out for each target.
    int targets = p.all_direct ? std::min(p.devices, p.readers[t].size()) : p.devices;
    most += 2 * longest * targets;
  }
  const double rate = most > 0 ? kMostTicks / most : 1.0;
  ticks_per_second_ = rate;
  for (const Cell& cell : p.cells) {
    ticks_.push_back(cell.seconds < kInfinity ? std::llround(cell.seconds * rate) : 0);
  }
  for (size_t size = 0; size < p.size_bytes.size(); ++size) {
    for (int kind = 0; kind < p.links.kinds(); ++kind) {
      double seconds = p.links.KindSeconds(static_cast<int>(size), kind);
      // Links that no tensor of this size uses may be too slow to be counted.
      hop_ticks_.push_back(std::llround(std::min(seconds * rate, kMostTicks)));
    }
  }
}

void Loads::ReadPlacement(const int32_t* placement) {
  const Problem& p = *problem_;
  for (int v = 0; v < p.parts; ++v) {
    int d = placement[v];
    if (d < 0 || d >= p.devices || !p.Allowed(v, d)) {
      throw std::invalid_argument("a part is placed where it cannot run");
    }
    if (d != placement[p.members[p.group[v]][0]]) {
      throw std::invalid_argument("a group is placed on several devices");
    }
    device_[v] = d;
    AddExecution(v, d, 1);
  }
  for (int t = 0; t < p.tensors; ++t) {
    for (int w : p.readers[t]) {
      ++CountOf(t, device_[w]);
      if (p.acyclic) AddFlow(p.maker[t], w, 1);
    }
    AddTensor(t, 1);
  }
}

void Loads::Add(int resource, int64_t ticks) {
  if (ticks == 0) return;
  size_t i = static_cast<size_t>(leaves_) + resource;
  tree_[i] += ticks;
  if (!is_changed_[resource]) {
    is_changed_[resource] = 1;
    changed_.push_back(resource);
  }
  for (i /= 2; i > 0; i /= 2) {
    int64_t larger = std::max(tree_[2 * i], tree_[2 * i + 1]);
    if (tree_[i] == larger) break;
    tree_[i] = larger;
  }
}

void Loads::AddExecution(int part, int device, int sign) {
  const Problem& p = *problem_;
  const int64_t ticks = sign * ticks_[static_cast<size_t>(part) * p.devices + device];
  for (int r : p.links.Cores(device)) Add(r, ticks);
  const int memory = p.memory_of[device];
  bytes_[memory] += sign * p.unread[part];
  int32_t& holders = holders_[static_cast<size_t>(p.task[part]) * p.devices + memory];
  if (sign > 0 && holders++ == 0) bytes_[memory] += p.weights[part];
  if (sign < 0 && --holders == 0) bytes_[memory] -= p.weights[part];
}

/*! \brief A tensor comes to a device, or is made there: bytes in its memory, where it is once. */
void Loads::AddBytes(int tensor, int device, int sign) {
  const Problem& p = *problem_;
  const int memory = p.memory_of[device];
  const int64_t bytes = p.size_bytes[p.size[tensor]];
  if (!p.shares_memory[device]) {
    bytes_[memory] += sign * bytes;
    return;
  }
  int32_t& comings = comings_[static_cast<size_t>(tensor) * p.devices + memory];
  if (sign > 0 && comings++ == 0) bytes_[memory] += bytes;
  if (sign < 0 && --comings == 0) bytes_[memory] -= bytes;
}

void Loads::AddHop(int tensor, int from, int to, int sign) {
  const Problem& p = *problem_;
  const int size = p.size[tensor];
  const int64_t ticks =
      sign * hop_ticks_[static_cast<size_t>(size) * p.links.kinds() + p.links.Kind(from, to)];
  p.links.Engaged(from, to, [&](int r) { Add(r, ticks); });
  AddBytes(tensor, to, sign);
  ++work_;
}

void Loads::AddFlow(int maker, int reader, int sign) {
  if (!problem_->staged[maker] || !problem_->staged[reader]) return;
  const int from = device_[maker], to = device_[reader];
  if (from == to) return;
  int32_t& flows = flows_[static_cast<size_t>(from) * problem_->devices + to];
  const bool had = flows > 0;
  flows += sign;
  if (rank_[from] > rank_[to]) backward_ += (flows > 0) - had;
}

/*! \brief All readings of a part and of what it makes. */
void Loads::AddFlows(int part, int sign) {
  const Problem& p = *problem_;
  if (!p.acyclic) return;
  for (const Input& input : p.inputs[part]) AddFlow(input.maker, part, sign);
  for (int t : p.outputs[part]) {
    for (int w : p.readers[t]) AddFlow(part, w, sign);
  }
}

/*! \brief Call visit(device) once for every device other than the maker's that reads a tensor. */
template <typename Visit>
void Loads::ForEachTarget(int tensor, Visit visit) {
  const Problem& p = *problem_;
  const int home = device_[p.maker[tensor]];
  Span<int> readers = p.readers[tensor];
  if (readers.size() < p.devices) {
    ++marks_;
    for (int w : readers) {
      int d = device_[w];
      if (d == home || marked_[d] == marks_) continue;
      marked_[d] = marks_;
      visit(d);
    }
    return;
  }
  for (int d = 0; d < p.devices; ++d) {
    if (d != home && CountOf(tensor, d) > 0) visit(d);
  }
}

/*! \brief All that a tensor loads: its own bytes, and every distinct hop once. */
void Loads::AddTensor(int tensor, int sign) {
  const Problem& p = *problem_;
  const int home = device_[p.maker[tensor]];
  AddBytes(tensor, home, sign);
  hops_.clear();
  ForEachTarget(tensor, [&](int d) {
    bool leads = p.links.Route(p.size[tensor], home, d, [&](int from, int to) {
      std::pair<int, int> hop{from, to};
      if (std::find(hops_.begin(), hops_.end(), hop) == hops_.end()) hops_.push_back(hop);
    });
    if (!leads) unreachable_ += sign;
  });
  for (const auto& hop : hops_) AddHop(tensor, hop.first, hop.second, sign);
}

void Loads::MoveReader(int tensor, int from, int to) {
  const int home = device_[problem_->maker[tensor]];
  if (--CountOf(tensor, from) == 0 && from != home) AddHop(tensor, home, from, -1);
  if (CountOf(tensor, to)++ == 0 && to != home) AddHop(tensor, home, to, 1);
}

void Loads::MovePart(int part, int device) {
  const Problem& p = *problem_;
  const int before = device_[part];
  ++work_;
  AddFlows(part, -1);
  AddExecution(part, before, -1);
  AddExecution(part, device, 1);
  if (!p.all_direct) {
    for (const Input& input : p.inputs[part]) AddTensor(input.tensor, -1);
  }
  for (int t : p.outputs[part]) AddTensor(t, -1);
  for (const Input& input : p.inputs[part]) {
    if (p.all_direct) {
      MoveReader(input.tensor, before, device);
    } else {
      --CountOf(input.tensor, before);
      ++CountOf(input.tensor, device);
    }
  }
  device_[part] = device;
  AddFlows(part, 1);
  for (int t : p.outputs[part]) AddTensor(t, 1);
  if (!p.all_direct) {
    for (const Input& input : p.inputs[part]) AddTensor(input.tensor, 1);
  }
}

void Loads::Move(int group, int device) {
  for (int v : problem_->members[group]) MovePart(v, device);
}

int Loads::Busiest() const {
  size_t i = 1;
  while (i < static_cast<size_t>(leaves_)) i = tree_[2 * i] == tree_[i] ? 2 * i : 2 * i + 1;
  return static_cast<int>(i) - leaves_;
}

double Loads::Term(int resource) const {
  const auto load = static_cast<double>(tree_[static_cast<size_t>(leaves_) + resource]);
  return std::exp(std::min(kMostPower, (load - reference_) / smooth_));
}

void Loads::Smooth(double seconds) {
  smooth_ = std::max(1.0, seconds * ticks_per_second_);
  SumUp();
}

void Loads::SumUp() {
  reference_ = static_cast<double>(tree_[1]);
  sum_ = 0.0;
  for (size_t r = 0; r < terms_.size(); ++r) sum_ += terms_[r] = Term(static_cast<int>(r));
  for (int r : changed_) is_changed_[r] = 0;
  changed_.clear();
}

double Loads::Cost() {
  for (int r : changed_) {
    const double term = Term(r);
    sum_ += term - terms_[r];
    terms_[r] = term;
    is_changed_[r] = 0;
  }
  changed_.clear();
  // The reference is near the largest load, lest all terms vanish, or their digits do.
  const double away = std::abs(static_cast<double>(tree_[1]) - reference_) / smooth_;
  if (away > kFar) SumUp();
  return (reference_ + smooth_ * std::log(sum_)) / ticks_per_second_;
}

Score Loads::Valued() const {
  Score score;
  if (unreachable_ > 0) return score;
  score.value = score.makespan = static_cast<double>(tree_[1]) / ticks_per_second_;
  if (!problem_->memory_binds) return score;
  for (int d = 0; d < problem_->devices; ++d) {
    int64_t limit = problem_->capacity[d];
    if (limit >= 0 && bytes_[d] > limit) {
      score.excess += static_cast<double>(bytes_[d] - limit) /
                      static_cast<double>(std::max<int64_t>(1, limit));
    }
  }
  return score;
}

/*!
 * \brief Take away devices that nobody left feeds, until none is left or all are on a circle.
 *
 * Most moves feed no device from one behind it in the pipeline that was seen last: no circle then.
 */
bool Loads::Pipeline() {
  if (backward_ == 0) return true;
  const int devices = problem_->devices;
  std::vector<int> fed(devices, 0), ready;
  for (int a = 0; a < devices; ++a) {
    for (int b = 0; b < devices; ++b) fed[b] += flows_[static_cast<size_t>(a) * devices + b] > 0;
  }
  for (int d = 0; d < devices; ++d) {
    if (fed[d] == 0) ready.push_back(d);
  }
  for (size_t i = 0; i < ready.size(); ++i) {
    for (int b = 0; b < devices; ++b) {
      if (flows_[static_cast<size_t>(ready[i]) * devices + b] > 0 && --fed[b] == 0) {
        ready.push_back(b);
      }
    }
  }
  if (ready.size() < static_cast<size_t>(devices)) return false;
  for (int i = 0; i < devices; ++i) rank_[ready[i]] = i;
  backward_ = 0;
  return true;
}

}  // namespace tvm_hetero::search
