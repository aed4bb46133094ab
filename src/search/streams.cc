/*!
 * \file search/streams.cc
 * \brief See streams.h.
 */
#include "search/streams.h"

#include <algorithm>
#include <limits>

namespace tvm_hetero::search {

namespace {
constexpr double kInfinite = std::numeric_limits<double>::infinity();
// What a change takes, in items: by itself, and one for so many streams of the tasks it touches.
constexpr int kChange = 32, kRows = 2;
// Rounding of sums that are compared with a bound.
constexpr double kRounding = 1 + 1e-9;
// Weight of the mean time at which devices become free: plateaus of the makespan get a slope.
constexpr double kSlope = 0.01;
}  // namespace

void Measure(int v, int streams, Division* division) {
  int first = 0;
  for (int item = v * streams; item < (v + 1) * streams; ++item) {
    division->begin[item] = first;
    first += division->counts[item];
  }
}

void CopyChanges(const Division& from, const std::vector<int>& tasks, int first, int last,
                 int streams, Division* to) {
  for (int v : tasks) {
    for (int item = v * streams; item < (v + 1) * streams; ++item) {
      to->counts[item] = from.counts[item];
      to->device[item] = from.device[item];
      to->begin[item] = from.begin[item];
    }
  }
  for (int p = first; p <= last; ++p) {
    to->sequence[p] = from.sequence[p];
    to->position[to->sequence[p]] = p;
  }
}

StreamDecoder::StreamDecoder(const TvmHeteroStreamsProblem& problem)
    : problem_(problem),
      streams_(problem.streams),
      devices_(problem.devices),
      cores_(problem.cores),
      items_(problem.tasks * problem.streams),
      tail_(problem.tasks, 0.0),
      ends_(items_, 0.0),
      kept_ends_(items_, 0.0),
      clock_(cores_ + 1, 0.0),
      marks_(static_cast<size_t>(items_) * (cores_ + 1), 0.0),
      kept_marks_(marks_),
      left_(cores_, 0.0),
      kept_left_(static_cast<size_t>(items_ + 1) * cores_, 0.0),
      kept_seconds_(items_, 0.0),
      kept_device_(items_, 0),
      filled_(items_, 0) {
  auto priced = [](double price) { return price > 0; };
  latency_only_ = std::none_of(problem.busy_price, problem.busy_price + devices_, priced) &&
                  std::none_of(problem.span_price, problem.span_price + devices_, priced);
  limited_ = std::any_of(problem.capacity, problem.capacity + devices_,
                         [](double bytes) { return bytes < kInfinite; });
  for (int v = problem.tasks - 1; v >= 0; --v) {
    double least = kInfinite;
    for (int d = 0; d < devices_; ++d) {
      const double* row = problem.seconds + (static_cast<size_t>(v) * devices_ + d) *
                                                (problem.batch + 1);
      least = std::min(least, *std::min_element(row + 1, row + problem.batch + 1));
    }
    for (int e = problem.in_begin[v]; e < problem.in_begin[v + 1]; ++e) {
      double& tail = tail_[problem.in_task[e]];
      tail = std::max(tail, tail_[v] + least);
    }
  }
}

double StreamDecoder::Arrival(const Division& division, int edge, int item, int from) const {
  int maker = problem_.in_task[edge], device = division.device[item];
  int low = division.begin[item], high = low + division.counts[item];
  bool loose = problem_.loose[maker];
  double ready = 0;
  for (int other = maker * streams_; other < (maker + 1) * streams_; ++other) {
    int count = division.counts[other], first = division.begin[other];
    if (count == 0 || first >= high || first + count <= low) continue;
    if (division.position[other] > division.position[item]) return kInfinite;
    double end = division.position[other] < from ? kept_ends_[other] : ends_[other];
    int home = division.device[other];
    if (home != device) {
      int pair = home * devices_ + device;
      end += problem_.latency[pair] +
             problem_.in_bytes[edge] * (loose ? 1 : count) * problem_.inverse[pair];
    }
    ready = std::max(ready, end);
  }
  return ready;
}

bool StreamDecoder::Place(const Division& division, int item, int from, double bound) {
  int v = item / streams_, device = division.device[item];
  double start = 0;
  for (int e = problem_.in_begin[v]; e < problem_.in_begin[v + 1]; ++e) {
    start = std::max(start, Arrival(division, e, item, from));
  }
  work_ += 1 + problem_.in_begin[v + 1] - problem_.in_begin[v];
  bool idle = false;
  if (!problem_.loose[v]) {
    const Span<int> cores = Cores(device);
    for (int r : cores) start = std::max(start, clock_[r]);
    double seconds = Seconds(division, item);
    for (int r : cores) {
      idle |= start > clock_[r];
      clock_[r] = start + seconds;
      left_[r] -= seconds;
    }
    start += seconds;
  }
  ends_[item] = start;
  clock_[cores_] = std::max(clock_[cores_], start);
  if (!latency_only_) return start < kInfinite;
  return (start + tail_[v]) * problem_.span <= bound && (!idle || Least() <= bound * kRounding);
}

void StreamDecoder::Remain(const Division& division, const std::vector<int>& touched) {
  std::copy_n(kept_left_.begin() + static_cast<size_t>(from_) * cores_, cores_, left_.begin());
  for (int v : touched) {
    if (problem_.loose[v]) continue;
    for (int item = v * streams_; item < (v + 1) * streams_; ++item) {
      for (int r : Cores(kept_device_[item])) left_[r] -= kept_seconds_[item];
      const double seconds = Seconds(division, item);
      for (int r : Cores(division.device[item])) left_[r] += seconds;
    }
  }
}

double StreamDecoder::Least() const {
  double end = clock_[cores_], sum = 0;
  for (int r = 0; r < cores_; ++r) {
    double busy = clock_[r] + left_[r];
    sum += busy;
    end = std::max(end, busy);
  }
  return problem_.span * (end + kSlope * sum / cores_);
}

double StreamDecoder::Decode(const Division& division, int from, double bound,
                             const std::vector<int>& touched) {
  const int width = cores_ + 1;
  // A change costs something before anything is decoded: by what it takes, in items.
  work_ += kChange + static_cast<int64_t>(touched.size()) * streams_ / kRows;
  // Marks stand before executions only, not before empty streams.
  while (from > 0 && !filled_[from]) --from;
  from_ = from;
  std::copy_n(kept_marks_.begin() + static_cast<size_t>(from) * width, width, clock_.begin());
  if (latency_only_) {
    Remain(division, touched);
    if (!(Least() <= bound * kRounding)) return kInfinite;
  }
  for (int p = from; p < items_; ++p) {
    int item = division.sequence[p];
    if (division.counts[item] == 0) continue;
    double* mark = marks_.data() + static_cast<size_t>(p) * width;
    for (int d = 0; d < width; ++d) mark[d] = clock_[d];
    if (!Place(division, item, from, bound)) return kInfinite;
  }
  return Score(division);
}

const double* StreamDecoder::ClockBefore(int* at) const {
  while (*at > 0 && !filled_[*at]) --*at;
  return kept_marks_.data() + static_cast<size_t>(*at) * (cores_ + 1);
}

double StreamDecoder::MakespanWithin(double bound) const {
  return latency_only_ && problem_.span > 0 ? bound / problem_.span : kInfinite;
}

void StreamDecoder::Commit(const Division& division, const std::vector<int>& touched) {
  const size_t width = cores_ + 1;
  std::copy(marks_.begin() + from_ * width, marks_.end(), kept_marks_.begin() + from_ * width);
  for (int p = from_; p < items_; ++p) {
    kept_ends_[division.sequence[p]] = ends_[division.sequence[p]];
    filled_[p] = division.counts[division.sequence[p]] > 0;
  }
  for (int v : touched) {
    for (int item = v * streams_; item < (v + 1) * streams_; ++item) {
      kept_seconds_[item] = problem_.loose[v] ? 0.0 : Seconds(division, item);
      kept_device_[item] = division.device[item];
    }
  }
  // Summed afresh from the end, so that roundings do not pile up.
  for (int p = items_ - 1; p >= 0; --p) {
    double* row = kept_left_.data() + static_cast<size_t>(p) * cores_;
    std::copy_n(row + cores_, cores_, row);
    int item = division.sequence[p];
    for (int r : Cores(kept_device_[item])) row[r] += kept_seconds_[item];
  }
}

double StreamDecoder::Score(const Division& division) const {
  double end = clock_[cores_], value = end * problem_.span;
  if (latency_only_) {
    double sum = 0;
    for (int r = 0; r < cores_; ++r) sum += clock_[r];
    value += kSlope * problem_.span * sum / cores_;
  } else {
    std::vector<double> busy(devices_, -1.0);
    for (int item = 0; item < items_; ++item) {
      int count = division.counts[item], device = division.device[item];
      if (count == 0) continue;
      busy[device] = std::max(busy[device], 0.0) +
                     problem_.seconds[(static_cast<size_t>(item / streams_) * devices_ + device) *
                                          (problem_.batch + 1) + count];
    }
    for (int d = 0; d < devices_; ++d) {
      if (busy[d] >= 0) value += problem_.busy_price[d] * busy[d] + problem_.span_price[d] * end;
    }
  }
  double over = limited_ ? Excess(division) : 0.0;
  if (end > problem_.limit) over += end / problem_.limit - 1;
  return value * (1 + 10 * over);
}

double StreamDecoder::Excess(const Division& division) const {
  double over = 0;
  for (int d = 0; d < devices_; ++d) {
    double held = 0;
    for (int v = 0; v < problem_.tasks; ++v) {
      bool there = false;
      for (int item = v * streams_; item < (v + 1) * streams_; ++item) {
        there = there || (division.counts[item] > 0 && division.device[item] == d);
      }
      if (there) held += problem_.weights[v];
    }
    if (held > problem_.capacity[d]) over += held / std::max(problem_.capacity[d], 1.0) - 1;
  }
  return over;
}

}  // namespace tvm_hetero::search
