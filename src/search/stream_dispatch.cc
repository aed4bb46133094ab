/*!
 * \file search/stream_dispatch.cc
 * \brief See stream_dispatch.h.
 */
#include "search/stream_dispatch.h"

#include <algorithm>
#include <limits>

namespace tvm_hetero::search {

namespace {
constexpr double kInfinite = std::numeric_limits<double>::infinity();
// Streams that are looked at before anything is ordered and take as long as one decoded item.
constexpr int kItems = 4;
}  // namespace

StreamDispatcher::StreamDispatcher(const TvmHeteroStreamsProblem& problem)
    : problem_(problem),
      streams_(problem.streams),
      items_(problem.tasks * problem.streams),
      out_(problem.tasks),
      missing_(items_, 0),
      arrival_(items_, 0.0),
      clock_(problem.cores, 0.0),
      left_(problem.cores, 0.0),
      ready_(problem.devices),
      placed_(items_, 0),
      emitted_(problem.tasks, 0) {
  for (int v = 0; v < problem.tasks; ++v) {
    for (int e = problem.in_begin[v]; e < problem.in_begin[v + 1]; ++e) {
      out_[problem.in_task[e]].push_back({v, problem.in_bytes[e]});
    }
  }
}

double StreamDispatcher::Copy(const Division& division, int maker, double bytes, int item) const {
  int home = division.device[maker], device = division.device[item];
  if (home == device) return 0;
  int count = problem_.loose[maker / streams_] ? 1 : division.counts[maker];
  int pair = home * problem_.devices + device;
  return problem_.latency[pair] + bytes * count * problem_.inverse[pair];
}

/*! \brief How many executions each one waits for, of those from `from` on. */
void StreamDispatcher::Count(const Division& division, int from) {
  std::fill(arrival_.begin(), arrival_.end(), 0.0);
  std::fill(missing_.begin(), missing_.end(), 0);
  std::fill(placed_.begin(), placed_.end(), 0);
  for (int p = 0; p < from; ++p) placed_[division.sequence[p]] = 1;
  for (int u = 0; u < problem_.tasks; ++u) {
    for (const Edge& edge : out_[u]) {
      int maker = u * streams_, reader = edge.task * streams_;
      const int last_maker = maker + streams_, last_reader = reader + streams_;
      // Ranges of both follow one another: a walk along both meets all that overlap.
      while (maker < last_maker && reader < last_reader) {
        int made = division.begin[maker] + division.counts[maker];
        int read = division.begin[reader] + division.counts[reader];
        if (division.counts[maker] > 0 && division.counts[reader] > 0) ++missing_[reader];
        if (division.counts[reader] == 0 || (division.counts[maker] > 0 && read <= made)) {
          ++reader;
          // An end in common ends both.
          if (division.counts[reader - 1] > 0 && read == made) ++maker;
        } else {
          ++maker;
        }
      }
    }
  }
}

/*! \brief What an execution makes is there at `end`. */
void StreamDispatcher::Release(const Division& division, int item, double end) {
  const int low = division.begin[item], high = low + division.counts[item];
  for (const Edge& edge : out_[item / streams_]) {
    for (int reader = edge.task * streams_; reader < (edge.task + 1) * streams_; ++reader) {
      const int count = division.counts[reader], first = division.begin[reader];
      if (first >= high) break;
      if (count == 0 || first + count <= low) continue;
      arrival_[reader] =
          std::max(arrival_[reader], end + Copy(division, item, edge.bytes, reader));
      if (--missing_[reader] == 0 && !placed_[reader]) Enqueue(division, reader);
    }
    ++work_;
  }
}

void StreamDispatcher::Enqueue(const Division& division, int item) {
  if (problem_.loose[item / streams_]) {
    free_.push_back(item);
  } else {
    ready_[division.device[item]].push_back(item);
  }
}

double StreamDispatcher::Start(int device, double arrival) const {
  double start = arrival;
  for (int r : Cores(device)) start = std::max(start, clock_[r]);
  return start;
}

double StreamDispatcher::Seconds(const Division& division, int item) const {
  return problem_.seconds[(static_cast<size_t>(item / streams_) * problem_.devices +
                           division.device[item]) * (problem_.batch + 1) + division.counts[item]];
}

/*! \brief Whether the cores of a device, free from `start` on, can do what is left by `bound`. */
bool StreamDispatcher::InTime(int device, double start, double bound) const {
  for (int r : Cores(device)) {
    if (start + left_[r] > bound) return false;
  }
  return true;
}

/*! \brief The execution that a device takes next and when; -1 if none is ready. */
int StreamDispatcher::Best(const Division& division, int device, double* start) const {
  int best = -1;
  const double at = Start(device, 0.0);
  *start = kInfinite;
  for (int item : ready_[device]) {
    double own = std::max(at, arrival_[item]);
    bool sooner = own < *start ||
                  (own == *start && division.position[item] < division.position[best]);
    if (!sooner) continue;
    best = item;
    *start = own;
  }
  return best;
}

/*! \brief Write an execution and, with the first of a task, the task's empty streams. */
void StreamDispatcher::Emit(const Division& division, int item) {
  order_.push_back(item);
  placed_[item] = 1;
  int v = item / streams_;
  if (emitted_[v]) return;
  emitted_[v] = 1;
  for (int other = v * streams_; other < (v + 1) * streams_; ++other) {
    if (division.counts[other] > 0 || placed_[other]) continue;
    order_.push_back(other);
    placed_[other] = 1;
  }
}

/*! \brief Take over what was decided before position `from`; what is ready then is queued. */
void StreamDispatcher::Begin(int from, const std::vector<double>& ends, const double* clock,
                             const Division& division) {
  Count(division, from);
  std::copy_n(clock, problem_.cores, clock_.begin());
  std::fill(emitted_.begin(), emitted_.end(), 0);
  std::fill(left_.begin(), left_.end(), 0.0);
  order_.clear();
  free_.clear();
  for (auto& row : ready_) row.clear();
  for (int p = 0; p < from; ++p) {
    int item = division.sequence[p];
    if (division.counts[item] > 0) Release(division, item, ends[item]);
  }
  for (int p = from; p < items_; ++p) {
    int item = division.sequence[p], v = item / streams_;
    if (division.counts[item] == 0) continue;
    if (problem_.in_begin[v] == problem_.in_begin[v + 1]) Enqueue(division, item);
    if (problem_.loose[v]) continue;
    for (int r : Cores(division.device[item])) left_[r] += Seconds(division, item);
  }
}

/*! \brief The execution that can start first, and when; -1 if none is ready. */
int StreamDispatcher::Next(const Division& division, double* start) const {
  int chosen = -1;
  *start = kInfinite;
  for (int d = 0; d < problem_.devices; ++d) {
    double own;
    int item = Best(division, d, &own);
    if (item < 0 || own >= *start) continue;
    chosen = item;
    *start = own;
  }
  return chosen;
}

bool StreamDispatcher::Dispatch(int from, const std::vector<double>& ends, const double* clock,
                                double bound, Division* division) {
  Begin(from, ends, clock, *division);
  work_ += items_ / kItems;
  while (true) {
    while (!free_.empty()) {
      int item = free_.back();
      free_.pop_back();
      Emit(*division, item);
      Release(*division, item, arrival_[item]);
    }
    double start;
    int item = Next(*division, &start);
    if (item < 0) break;
    int device = division->device[item];
    if (!InTime(device, start, bound)) return false;
    auto& row = ready_[device];
    row.erase(std::find(row.begin(), row.end(), item));
    double seconds = Seconds(*division, item);
    for (int r : Cores(device)) {
      clock_[r] = start + seconds;
      left_[r] -= seconds;
    }
    Emit(*division, item);
    Release(*division, item, start + seconds);
    ++work_;
  }
  return Write(from, division);
}

/*! \brief The new sequence into the division; false if some execution was never ready. */
bool StreamDispatcher::Write(int from, Division* division) {
  for (int p = from; p < items_; ++p) {
    int item = division->sequence[p];
    if (placed_[item]) continue;
    if (division->counts[item] > 0) return false;
    order_.push_back(item);
  }
  std::copy(order_.begin(), order_.end(), division->sequence.begin() + from);
  for (int p = from; p < items_; ++p) division->position[division->sequence[p]] = p;
  return true;
}

}  // namespace tvm_hetero::search
