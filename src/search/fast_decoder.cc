#include "search/fast_decoder.h"

#include <algorithm>

namespace tvm_hetero::search {
namespace {

// 8 MB: beyond it the table would not stay in a cache, and two lookups are as quick.
constexpr size_t kMostDelays = size_t{1} << 20;
constexpr int kLeastStep = 8;

}  // namespace

FastDecoder::FastDecoder(const Problem& problem)
    : problem_(&problem),
      devices_(problem.devices),
      clocks_(problem.links.teams() ? problem.links.resources() : problem.devices),
      step_(std::max(kLeastStep, clocks_)),
      clock_(clocks_, 0.0),
      ends_(problem.parts, 0.0),
      kept_(problem.parts, 0.0),
      rows_((problem.parts / step_ + 1) * static_cast<size_t>(clocks_), 0.0),
      fresh_(rows_.size(), 0.0),
      busy_(problem.devices, 0.0),
      used_(problem.devices, 0) {
  const size_t delays = problem.size_bytes.size() * devices_ * devices_;
  if (delays <= kMostDelays) {
    std::vector<double> table(delays);
    size_t i = 0;
    for (size_t size = 0; size < problem.size_bytes.size(); ++size) {
      for (int a = 0; a < devices_; ++a) {
        for (int b = 0; b < devices_; ++b) {
          table[i++] = problem.links.Delay(static_cast<int>(size), a, b);
        }
      }
    }
    dense_ = std::move(table);
  }
  for (int v = 0; v < problem.parts; ++v) {
    source_begin_.push_back(static_cast<int>(sources_.size()));
    // Of several tensors from one maker the largest arrives last, wherever both are.
    std::vector<Source> mine;
    for (const Input& input : problem.inputs[v]) {
      auto same = [&](const Source& source) { return source.maker == input.maker; };
      auto found = std::find_if(mine.begin(), mine.end(), same);
      if (found == mine.end()) {
        mine.push_back({input.maker, input.size});
      } else if (problem.size_bytes[input.size] > problem.size_bytes[found->size]) {
        found->size = input.size;
      }
    }
    sources_.insert(sources_.end(), mine.begin(), mine.end());
  }
  source_begin_.push_back(static_cast<int>(sources_.size()));
}

template <bool kDense, bool kTeams>
bool FastDecoder::RunRange(const State& state, int from, int to, double limit) {
  const int* order = state.order().data();
  const int* device = state.placement().data();
  const Source* sources = sources_.data();
  const int* begin = source_begin_.data();
  const Cell* cells = problem_->cells.data();
  const double* dense = dense_.data();
  const size_t devices = devices_;
  double* ends = ends_.data();
  double* clock = clock_.data();
  for (int i = from; i < to; ++i) {
    const int v = order[i];
    const size_t d = device[v];
    double start;
    if constexpr (kTeams) {
      start = 0.0;
      for (int r : problem_->links.Cores(device[v])) start = std::max(start, clock[r]);
    } else {
      start = clock[d];
    }
    for (int j = begin[v]; j < begin[v + 1]; ++j) {
      const Source source = sources[j];
      double delay;
      if constexpr (kDense) {
        delay = dense[(source.size * devices + device[source.maker]) * devices + d];
      } else {
        delay = Delay(source.size, device[source.maker], static_cast<int>(d));
      }
      start = std::max(start, ends[source.maker] + delay);
    }
    const Cell& cell = cells[v * devices + d];
    const double end = start + cell.seconds;
    ends[v] = end;
    if constexpr (kTeams) {
      for (int r : problem_->links.Cores(device[v])) clock[r] = end;
    } else {
      clock[d] = end;
    }
    if (end + cell.tail > limit) {
      stop_ = i + 1;
      return false;
    }
  }
  stop_ = to;
  return true;
}

double FastDecoder::Run(const State& state, int from, int last, double limit) {
  const int parts = problem_->parts;
  from_ = from / step_ * step_;
  settled_ = from_;
  restore_ = last + 1;
  std::copy_n(Row(&rows_, from_ / step_), clocks_, clock_.begin());
  for (int i = from_; i < parts; i += step_) {
    const int to = std::min(parts, i + step_);
    bool within;
    if (problem_->links.teams()) {
      within = dense_.empty() ? RunRange<false, true>(state, i, to, limit)
                              : RunRange<true, true>(state, i, to, limit);
    } else {
      within = dense_.empty() ? RunRange<false, false>(state, i, to, limit)
                              : RunRange<true, false>(state, i, to, limit);
    }
    work_ += stop_ - i;
    if (!within) return kInfinity;
    if (to - i < step_) break;
    std::copy_n(clock_.begin(), clocks_, Row(&fresh_, to / step_));
    if (to > last && std::equal(clock_.begin(), clock_.end(), Row(&rows_, to / step_)) &&
        Settled(state, to)) {
      return makespan_;
    }
  }
  return *std::max_element(clock_.begin(), clock_.end());
}

/*! \brief Whether every part before a position ended as before, or is read before it. */
bool FastDecoder::Settled(const State& state, int position) {
  for (; settled_ < position; ++settled_) {
    int v = state.order()[settled_];
    if (ends_[v] == kept_[v]) continue;
    for (int w : problem_->followers[v]) {
      if (state.position(w) >= position) return false;
    }
  }
  return true;
}

Score FastDecoder::Decode(const State& state) {
  std::fill(rows_.begin(), rows_.begin() + clocks_, 0.0);
  // No row of an earlier state may look like convergence.
  std::fill(rows_.begin() + clocks_, rows_.end(), -1.0);
  candidate_ = Run(state, 0, -1, kInfinity);
  Score score = Valued(state, candidate_);
  Accept(state);
  return score;
}

Score FastDecoder::Evaluate(const State& state, double limit) {
  const bool partial = problem_->kind == kLatency;
  candidate_ = Run(state, state.first(), partial ? state.last() : problem_->parts,
                   partial ? limit : kInfinity);
  if (candidate_ == kInfinity) return Score{};
  return Valued(state, candidate_);
}

Score FastDecoder::Valued(const State& state, double makespan) {
  if (problem_->kind == kLatency) return {makespan, makespan, 0.0};
  std::fill(busy_.begin(), busy_.end(), 0.0);
  std::fill(used_.begin(), used_.end(), 0);
  for (int v = 0; v < problem_->parts; ++v) {
    int d = state.device(v);
    busy_[d] += problem_->cell(v, d).seconds;
    used_[d] = 1;
  }
  return {Price(*problem_, makespan, busy_, used_), makespan, LateBy(*problem_, makespan)};
}

void FastDecoder::Accept(const State& state) {
  makespan_ = candidate_;
  for (int i = from_; i < stop_; ++i) kept_[state.order()[i]] = ends_[state.order()[i]];
  const int first = from_ / step_ + 1, end = stop_ / step_ + 1;
  if (first < end) std::copy(Row(&fresh_, first), Row(&fresh_, end), Row(&rows_, first));
}

void FastDecoder::Reject(const State& state) {
  const int end = std::min(problem_->parts, std::max(stop_, restore_));
  for (int i = from_; i < end; ++i) ends_[state.order()[i]] = kept_[state.order()[i]];
}

}  // namespace tvm_hetero::search
