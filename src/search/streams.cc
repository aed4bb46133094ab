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
// Weight of the mean time at which devices become free: plateaus of the makespan get a slope.
constexpr double kSlope = 0.01;
}  // namespace

StreamDecoder::StreamDecoder(const TvmHeteroStreamsProblem& problem)
    : problem_(problem),
      streams_(problem.streams),
      devices_(problem.devices),
      items_(problem.tasks * problem.streams),
      tail_(problem.tasks, 0.0),
      ends_(items_, 0.0),
      kept_ends_(items_, 0.0),
      clock_(devices_ + 1, 0.0),
      marks_(static_cast<size_t>(items_) * (devices_ + 1), 0.0),
      kept_marks_(marks_) {
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
  int v = item / streams_, device = division.device[item], count = division.counts[item];
  double start = 0;
  for (int e = problem_.in_begin[v]; e < problem_.in_begin[v + 1]; ++e) {
    start = std::max(start, Arrival(division, e, item, from));
  }
  work_ += 1 + problem_.in_begin[v + 1] - problem_.in_begin[v];
  if (!problem_.loose[v]) {
    start = std::max(start, clock_[device]);
    start += problem_.seconds[(static_cast<size_t>(v) * devices_ + device) *
                                  (problem_.batch + 1) + count];
    clock_[device] = start;
  }
  ends_[item] = start;
  clock_[devices_] = std::max(clock_[devices_], start);
  if (latency_only_) return (start + tail_[v]) * problem_.span <= bound;
  return start < kInfinite;
}

double StreamDecoder::Decode(const Division& division, int from, double bound) {
  const int width = devices_ + 1;
  from_ = from;
  std::copy_n(kept_marks_.begin() + static_cast<size_t>(from) * width, width, clock_.begin());
  for (int p = from; p < items_; ++p) {
    std::copy_n(clock_.begin(), width, marks_.begin() + static_cast<size_t>(p) * width);
    int item = division.sequence[p];
    if (division.counts[item] > 0 && !Place(division, item, from, bound)) return kInfinite;
  }
  return Score(division);
}

void StreamDecoder::Commit(const Division& division) {
  const size_t width = devices_ + 1;
  std::copy(marks_.begin() + from_ * width, marks_.end(), kept_marks_.begin() + from_ * width);
  for (int p = from_; p < items_; ++p) {
    kept_ends_[division.sequence[p]] = ends_[division.sequence[p]];
  }
}

double StreamDecoder::Score(const Division& division) const {
  double end = clock_[devices_], value = end * problem_.span;
  if (latency_only_) {
    double sum = 0;
    for (int d = 0; d < devices_; ++d) sum += clock_[d];
    value += kSlope * problem_.span * sum / devices_;
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
