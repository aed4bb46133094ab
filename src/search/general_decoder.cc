#include "search/general_decoder.h"

#include <algorithm>

namespace tvm_hetero::search {
namespace {

constexpr int kLeastStep = 8;

}  // namespace

GeneralDecoder::GeneralDecoder(const Problem& problem)
    : problem_(&problem),
      resources_(problem.links.resources()),
      step_(std::max(kLeastStep, resources_)),
      partial_(problem.kind == kLatency && !problem.memory_binds),
      memory_(problem),
      free_(resources_, 0.0),
      done_(problem.items(), 0.0),
      kept_(problem.items(), 0.0),
      starts_(problem.parts, 0.0),
      rows_((problem.items() / step_ + 1) * static_cast<size_t>(resources_), 0.0),
      fresh_(rows_.size(), 0.0),
      arrivals_(static_cast<size_t>(problem.tensors) * problem.devices),
      run_at_(problem.items(), -1),
      busy_(problem.devices, 0.0),
      used_(problem.devices, 0) {}

/*! \brief Make a hop unless it is there; when it ends. */
double GeneralDecoder::Hop(int tensor, int from, int to, int position, double ready) {
  const Problem& p = *problem_;
  const size_t place = static_cast<size_t>(tensor) * p.devices + to;
  Arrival& arrival = arrivals_[place];
  if (There(arrival) && arrival.from == from) return arrival.end;
  const bool first = !There(arrival);
  const bool sends = !p.links.Engine(from), receives = !p.links.Engine(to);
  double start = ready;
  p.links.Engaged(from, to, [&](int r) { start = std::max(start, free_[r]); });
  if (p.memory_binds && first) start = memory_.Bring(tensor, to, start);
  const double seconds = p.links.HopSeconds(p.size[tensor], from, to);
  const double end = start + seconds;
  p.links.Engaged(from, to, [&](int r) { free_[r] = end; });
  busy_[from] += sends ? seconds : 0.0;
  busy_[to] += receives ? seconds : 0.0;
  used_[from] = used_[to] = 1;
  if (record_ != nullptr) record_->push_back({tensor, from, to, start, end});
  if (arrival.run != run_) replaced_.emplace_back(place, arrival);
  arrival = {end, from, position, run_};
  return end;
}

bool GeneralDecoder::RunFetch(const State& state, int fetch, int position, double limit) {
  const Problem& p = *problem_;
  const int tensor = p.fetch_tensor[fetch], reader = p.fetch_reader[fetch];
  const int home = state.device(p.maker[tensor]), there = state.device(reader);
  double ready = done_[p.maker[tensor]];
  if (home != there) {
    bool leads = p.links.Route(p.size[tensor], home, there, [&](int from, int to) {
      ready = Hop(tensor, from, to, position, ready);
      if (p.memory_binds) memory_.Use(tensor, from, ready);
    });
    if (!leads) ready = kInfinity;
  }
  done_[p.parts + fetch] = ready;
  const Cell& cell = p.cell(reader, there);
  return !(ready + cell.seconds + cell.tail > limit);
}

bool GeneralDecoder::RunPart(const State& state, int part, double limit) {
  const Problem& p = *problem_;
  const int d = state.device(part);
  double start = 0.0;
  for (int r : p.links.Cores(d)) start = std::max(start, free_[r]);
  for (const Input& input : p.inputs[part]) start = std::max(start, done_[p.parts + input.fetch]);
  if (p.memory_binds) {
    int64_t bytes = p.unread[part];
    for (int t : p.outputs[part]) bytes += p.size_bytes[p.size[t]];
    start = memory_.Take(d, bytes, start);
    for (int t : p.outputs[part]) memory_.Make(t, d, start);
  }
  const Cell& cell = p.cell(part, d);
  const double end = start + cell.seconds;
  starts_[part] = start;
  done_[part] = end;
  for (int r : p.links.Cores(d)) free_[r] = end;
  busy_[d] += cell.seconds;
  used_[d] = 1;
  if (p.memory_binds) {
    for (const Input& input : p.inputs[part]) memory_.Use(input.tensor, d, end);
    for (int t : p.outputs[part]) memory_.DropUnused(t, d, end);
  }
  return !(end + cell.tail > limit);
}

Score GeneralDecoder::Run(const State& state, int from, double limit) {
  const Problem& p = *problem_;
  const int items = p.items();
  ++run_;
  from_ = partial_ ? from / step_ * step_ : 0;
  replaced_.clear();
  std::copy_n(Row(&rows_, from_ / step_), resources_, free_.begin());
  if (!partial_) {
    std::fill(busy_.begin(), busy_.end(), 0.0);
    std::fill(used_.begin(), used_.end(), 0);
  }
  if (p.memory_binds) {
    memory_.Reset(state);
    work_ += items;  // what that takes
  }
  for (int i = from_; i < items; ++i) {
    if (i % step_ == 0) std::copy_n(free_.begin(), resources_, Row(&fresh_, i / step_));
    int item = state.order()[i];
    bool within = item < p.parts ? RunPart(state, item, limit)
                                 : RunFetch(state, item - p.parts, i, limit);
    if (!within) {
      stop_ = i + 1;
      work_ += stop_ - from_;
      return Score{};
    }
  }
  stop_ = items;
  work_ += stop_ - from_;
  return Valued();
}

Score GeneralDecoder::Valued() {
  const Problem& p = *problem_;
  // Every hop is through before a reader that waits for it, so the last to end is a part.
  const double makespan = *std::max_element(free_.begin(), free_.end());
  if (!(makespan < kInfinity)) return Score{};
  Score score{makespan, makespan, 0.0};
  if (p.kind != kLatency) score.value = Price(p, makespan, busy_, used_);
  score.excess = LateBy(p, makespan) + (p.memory_binds ? memory_.Excess() : 0.0);
  return score;
}

Score GeneralDecoder::Decode(const State& state) {
  std::fill_n(rows_.begin(), resources_, 0.0);
  restore_ = 0;
  // Nothing of an accepted state is left.
  std::fill(run_at_.begin(), run_at_.end(), -1);
  for (Arrival& arrival : arrivals_) arrival = Arrival{};
  Score score = Run(state, 0, kInfinity);
  Accept(state);
  return score;
}

Score GeneralDecoder::Record(const State& state, std::vector<TvmHeteroSearchHop>* hops) {
  record_ = hops;
  Score score = Decode(state);
  record_ = nullptr;
  return score;
}

Score GeneralDecoder::Evaluate(const State& state, double limit) {
  restore_ = state.last() + 1;
  return Run(state, state.first(), problem_->kind == kLatency ? limit : kInfinity);
}

void GeneralDecoder::Accept(const State& state) {
  for (int i = from_; i < stop_; ++i) {
    kept_[state.order()[i]] = done_[state.order()[i]];
    run_at_[i] = run_;
  }
  const int first = from_ / step_, end = (stop_ - 1) / step_ + 1;
  std::copy(Row(&fresh_, first), Row(&fresh_, end), Row(&rows_, first));
  replaced_.clear();
}

void GeneralDecoder::Reject(const State& state) {
  const int end = std::min(problem_->items(), std::max(stop_, restore_));
  for (int i = from_; i < end; ++i) done_[state.order()[i]] = kept_[state.order()[i]];
  for (size_t i = replaced_.size(); i > 0; --i) {
    arrivals_[replaced_[i - 1].first] = replaced_[i - 1].second;
  }
  replaced_.clear();
}

}  // namespace tvm_hetero::search
