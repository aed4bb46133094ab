/*!
 * \file search/stream_search.cc
 * \brief Simulated annealing over divisions (see tvm_hetero/streams.h).
 *
 * Moves: some elements of a run of tasks pass from one stream to another; a stream of a run of
 * tasks changes its device; a task is divided as one whose tensor it reads; an execution moves in
 * the sequence. After some of the first three all that follows is ordered anew by list scheduling
 * (stream_dispatch.h), since a device often waits for what another one has been given. A run is
 * consecutive in the topological order: a phase changes at once and only its ends pay for copies.
 */
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "search/random.h"
#include "search/stop.h"
#include "search/stream_dispatch.h"
#include "search/streams.h"

namespace tvm_hetero::search {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// The last temperature in parts of the first.
constexpr double kCold = 0.005;
// Work (items decoded, and steps) between two looks at the clock: milliseconds, however many items a
// step decodes. By steps alone 256 of 1,000 tasks in 64 streams were more than a second.
constexpr int64_t kClockEvery = 20'000;
// How often what follows a change is ordered anew, and how often from before the change.
constexpr double kDispatch = 0.1, kEarlier = 0.5;

class Annealer {
 public:
  Annealer(const TvmHeteroStreamsProblem& problem, Division start, uint64_t seed)
      : problem_(problem), streams_(problem.streams), now_(std::move(start)), random_(seed),
        decoder_(problem), dispatcher_(problem) {
    now_.begin.resize(now_.counts.size());
    now_.position.resize(now_.counts.size());
    for (int v = 0; v < problem.tasks; ++v) Measure(v, streams_, &now_);
    for (size_t p = 0; p < now_.sequence.size(); ++p) now_.position[now_.sequence[p]] = p;
    before_ = now_;
  }

  void Run(TvmHeteroStreamsSearch* search);
  const Division& best() const { return best_; }

 private:
  void Propose();
  void Shift();
  void Rehouse();
  void Imitate();
  void Resequence();
  bool Dispatch(double bound, int* from);
  int64_t work() const { return decoder_.work() + dispatcher_.work(); }
  int Past(int from, int step, int far) const;
  int Changed() const;
  void Segment(int* first, int* last);
  void Touch(int v);
  bool Allowed(int v, int d) const {
    return problem_.seconds[(static_cast<size_t>(v) * problem_.devices + d) *
                                (problem_.batch + 1) + 1] < kInfinite;
  }
  bool Fixed(int v) const { return problem_.loose[v] || problem_.group[v] >= 0; }
  bool GroupAllowed(int v, int d);
  void Undo() { Copy(before_, &now_); }
  void Keep() { Copy(now_, &before_); }
  void Copy(const Division& from, Division* to) const {
    CopyChanges(from, touched_, moved_first_, moved_last_, streams_, to);
  }

  const TvmHeteroStreamsProblem& problem_;
  int streams_;
  Division now_, before_, best_;
  Random random_;
  StreamDecoder decoder_;
  StreamDispatcher dispatcher_;
  std::vector<int> touched_;           // tasks whose counts or devices differ from `before_`
  int moved_first_ = 0, moved_last_ = -1;  // positions that do
};

/*! \brief Note a changed task. */
void Annealer::Touch(int v) {
  touched_.push_back(v);
  Measure(v, streams_, &now_);
}

void Annealer::Segment(int* first, int* last) {
  int tasks = problem_.tasks, length = 1;
  if (random_.Chance(0.6)) length = static_cast<int>(std::exp(random_.Unit() * std::log(tasks)));
  *first = random_.Below(tasks);
  *last = std::min(tasks, *first + std::max(1, length));
}

void Annealer::Shift() {
  int first, last;
  Segment(&first, &last);
  int from = random_.Below(streams_), to = random_.Below(streams_ - 1);
  to += to >= from;
  int most = 1;
  if (random_.Chance(0.4)) most = 1 + random_.Below(std::max(1, problem_.batch / 4));
  if (random_.Chance(0.15)) most = problem_.batch;
  for (int v = first; v < last; ++v) {
    int count = std::min(most, now_.counts[v * streams_ + from]);
    if (Fixed(v) || count == 0) continue;
    if (!Allowed(v, now_.device[v * streams_ + to])) continue;
    now_.counts[v * streams_ + from] -= count;
    now_.counts[v * streams_ + to] += count;
    Touch(v);
  }
}

/*! \brief Whether all tasks of a group can run on a device. */
bool Annealer::GroupAllowed(int v, int d) {
  for (int w = 0; w < problem_.tasks; ++w) {
    if (problem_.group[w] == problem_.group[v] && !Allowed(w, d)) return false;
  }
  return true;
}

void Annealer::Rehouse() {
  int first, last;
  Segment(&first, &last);
  int stream = random_.Below(streams_), other = random_.Below(streams_);
  int device = random_.Below(problem_.devices);
  bool swap = random_.Chance(0.3);
  if (problem_.group[first] >= 0) {
    if (!GroupAllowed(first, device)) return;
    for (int w = 0; w < problem_.tasks; ++w) {
      if (problem_.group[w] != problem_.group[first]) continue;
      for (int s = 0; s < streams_; ++s) now_.device[w * streams_ + s] = device;
      Touch(w);
    }
    return;
  }
  for (int v = first; v < last; ++v) {
    if (problem_.group[v] >= 0) continue;
    int32_t& own = now_.device[v * streams_ + stream];
    if (swap) {
      std::swap(own, now_.device[v * streams_ + other]);
    } else {
      if (!Allowed(v, device)) continue;
      own = device;
    }
    Touch(v);
  }
}

void Annealer::Imitate() {
  int e = random_.Below(std::max(1, problem_.edges));
  if (problem_.edges == 0) return;
  int v = static_cast<int>(std::upper_bound(problem_.in_begin, problem_.in_begin +
                                            problem_.tasks + 1, e) - problem_.in_begin) - 1;
  int u = problem_.in_task[e];
  if (random_.Chance(0.5)) std::swap(u, v);
  if (Fixed(u) || Fixed(v)) return;
  for (int s = 0; s < streams_; ++s) {
    if (!Allowed(v, now_.device[u * streams_ + s])) return;
  }
  for (int s = 0; s < streams_; ++s) {
    now_.counts[v * streams_ + s] = now_.counts[u * streams_ + s];
    now_.device[v * streams_ + s] = now_.device[u * streams_ + s];
  }
  Touch(v);
}

void Annealer::Resequence() {
  int items = static_cast<int>(now_.sequence.size());
  int from = random_.Below(items);
  for (int tries = 0; tries < 8 && now_.counts[now_.sequence[from]] == 0; ++tries) {
    from = random_.Below(items);
  }
  int far = std::max(1, static_cast<int>(std::exp(random_.Unit() * std::log(items))));
  int to = Past(from, random_.Chance(0.5) ? 1 : -1, far);
  if (to == from) return;
  auto begin = now_.sequence.begin();
  if (to > from) {
    std::rotate(begin + from, begin + from + 1, begin + to + 1);
  } else {
    std::rotate(begin + to, begin + from, begin + from + 1);
  }
  moved_first_ = std::min(from, to);
  moved_last_ = std::max(from, to);
  for (int p = moved_first_; p <= moved_last_; ++p) now_.position[now_.sequence[p]] = p;
}

/*!
 * \brief Where an execution gets to that moves at most `far` places and ends beyond one that its
 * device runs: among those of other devices its place says nothing.
 */
int Annealer::Past(int from, int step, int far) const {
  int items = static_cast<int>(now_.sequence.size()), to = from;
  int item = now_.sequence[from];
  bool empty = now_.counts[item] == 0;
  for (int p = from + step; far > 0 && p >= 0 && p < items; p += step, --far) {
    int other = now_.sequence[p];
    bool passed = now_.counts[other] > 0 && now_.device[other] == now_.device[item];
    if (empty || passed) to = p;
  }
  return to;
}

/*! \brief Change something, or nothing. */
void Annealer::Propose() {
  touched_.clear();
  moved_first_ = 0;
  moved_last_ = -1;
  double kind = random_.Unit();
  if (kind < 0.45 && streams_ > 1) return Shift();
  if (kind < 0.60) return Rehouse();
  if (kind < 0.70) return Imitate();
  return Resequence();
}

/*! \brief Order what follows a change anew, so that no device waits for what was next before. */
bool Annealer::Dispatch(double bound, int* from) {
  if (random_.Chance(kEarlier)) *from = random_.Below(*from + 1);
  const double* clock = decoder_.ClockBefore(from);
  bound = decoder_.MakespanWithin(bound);
  if (!dispatcher_.Dispatch(*from, decoder_.ends(), clock, bound, &now_)) return false;
  moved_first_ = *from;
  moved_last_ = static_cast<int>(now_.sequence.size()) - 1;
  return true;
}

/*! \brief The first position at which an execution differs from before; -1 if none does. */
int Annealer::Changed() const {
  const int none = static_cast<int>(now_.sequence.size());
  int first = none;
  for (int p = moved_first_; p <= moved_last_ && first == none; ++p) {
    if (now_.counts[now_.sequence[p]] > 0) first = moved_first_;
  }
  for (int v : touched_) {
    for (int item = v * streams_; item < (v + 1) * streams_; ++item) {
      if (now_.counts[item] == 0 && before_.counts[item] == 0) continue;
      bool same = now_.counts[item] == before_.counts[item] &&
                  now_.device[item] == before_.device[item] &&
                  now_.begin[item] == before_.begin[item];
      if (!same) first = std::min(first, now_.position[item]);
    }
  }
  return first == none ? -1 : first;
}

void Annealer::Run(TvmHeteroStreamsSearch* search) {
  auto began = std::chrono::steady_clock::now();
  std::vector<int> all(problem_.tasks);
  std::iota(all.begin(), all.end(), 0);
  double current = decoder_.Decode(now_, 0, kInfinite, {});
  decoder_.Commit(now_, all);
  best_ = now_;
  double best = current;
  search->stopped = 0;
  double first = search->heat * current;
  int64_t look = 0;
  for (int64_t step = 0; current < kInfinite && work() + step < search->work; ++step) {
    if (work() + step >= look) {
      look = work() + step + kClockEvery;
      std::chrono::duration<double> spent = std::chrono::steady_clock::now() - began;
      search->stopped = IsStopped() || spent.count() > search->deadline;
      if (search->stopped) break;
    }
    double done = static_cast<double>(work() + step) / static_cast<double>(search->work);
    double heat = first * std::pow(kCold, done);
    double bound = current - heat * std::log(1.0 - random_.Unit());
    Propose();
    int from = Changed();
    if (from < 0) {
      // Empty streams only: nothing is decoded, and nothing is lost.
      Keep();
      continue;
    }
    if (!touched_.empty() && random_.Chance(kDispatch) && !Dispatch(bound, &from)) {
      Undo();
      continue;
    }
    double score = decoder_.Decode(now_, from, bound, touched_);
    if (!(score <= bound)) {
      Undo();
      continue;
    }
    decoder_.Commit(now_, touched_);
    Keep();
    current = score;
    if (score < best) {
      best = score;
      best_ = now_;
    }
  }
  search->value = best;
  search->work = work();
}

}  // namespace

Division AnnealStreams(const TvmHeteroStreamsProblem& problem, Division start,
                       TvmHeteroStreamsSearch* search) {
  Annealer annealer(problem, std::move(start), search->seed);
  annealer.Run(search);
  return annealer.best();
}

}  // namespace tvm_hetero::search
