/*!
 * \file search/streams.h
 * \brief A divided batch as a list schedule: state and decoder (see tvm_hetero/streams.h).
 *
 * An execution starts when its device is free of those earlier in the sequence and the elements
 * that it reads have arrived; copies are mere delays. A device is free when all its *cores* are:
 * itself, or the cores of a team, of which teams share some. A change is decoded from the first
 * position that it touches; what lies before is kept from the last committed state.
 *
 * What a core has still to run is known before it is decoded, so a change is rejected as soon as
 * a core has idled too long for the rest to end in time: nearly all are, within a few items.
 */
#ifndef TVM_HETERO_SEARCH_STREAMS_H_
#define TVM_HETERO_SEARCH_STREAMS_H_

#include <tvm_hetero/streams.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/rows.h"

namespace tvm_hetero::search {

/*! \brief Counts, devices and order, with where every range begins. */
struct Division {
  std::vector<int32_t> counts, device, sequence, begin, position;
};

/*! \brief Write where the ranges of a task begin, from its counts. */
void Measure(int v, int streams, Division* division);

/*! \brief Copy what changed: some tasks, and positions `first` to `last` of the sequence. */
void CopyChanges(const Division& from, const std::vector<int>& tasks, int first, int last,
                 int streams, Division* to);

class StreamDecoder {
 public:
  explicit StreamDecoder(const TvmHeteroStreamsProblem& problem);

  /*!
   * \brief Time a division that equals the committed one before position `from`.
   * \param touched the tasks whose counts or devices differ from the committed one's
   * \return its score; infinite if it is worse than `bound` or breaks the order of data.
   */
  double Decode(const Division& division, int from, double bound, const std::vector<int>& touched);
  /*! \brief Take over what was decoded last. */
  void Commit(const Division& division, const std::vector<int>& touched);
  /*! \brief When cores are free before position `at`, or the last execution before it. */
  const double* ClockBefore(int* at) const;
  /*! \brief When each execution ends, as committed. */
  const std::vector<double>& ends() const { return kept_ends_; }
  /*! \brief The makespan beyond which a score is above `bound`. */
  double MakespanWithin(double bound) const;
  int64_t work() const { return work_; }

 private:
  bool Place(const Division& division, int item, int from, double bound);
  double Arrival(const Division& division, int edge, int item, int from) const;
  double Score(const Division& division) const;
  double Excess(const Division& division) const;
  double Seconds(const Division& division, int item) const {
    return problem_.seconds[(static_cast<std::size_t>(item / streams_) * devices_ +
                             division.device[item]) * (problem_.batch + 1) + division.counts[item]];
  }
  Span<int> Cores(int device) const {
    const int32_t* begin = problem_.core_begin + device;
    return {problem_.core + begin[0], problem_.core + begin[1]};
  }
  /*! \brief What every core has still to run from `from_` on, into `left_`. */
  void Remain(const Division& division, const std::vector<int>& touched);
  /*! \brief The least score of whatever `clock_` and `left_` may end as. */
  double Least() const;

  const TvmHeteroStreamsProblem& problem_;
  int streams_, devices_, cores_, items_;
  bool latency_only_, limited_;
  std::vector<double> tail_;               // least time that follows a task
  std::vector<double> ends_, kept_ends_;   // by item
  std::vector<double> clock_;              // free time of every core, then the makespan
  std::vector<double> marks_, kept_marks_; // the clock before every position
  std::vector<double> left_, kept_left_;   // still to run, by core; and from every position on
  std::vector<double> kept_seconds_;       // by item, with where it ran
  std::vector<int32_t> kept_device_;
  std::vector<char> filled_;               // by position: an execution, not an empty stream
  int from_ = 0;
  int64_t work_ = 0;
};

/*!
 * \brief The best division that annealing finds from `start` (search/stream_search.cc).
 * \param search its settings; what came of it is written there.
 */
Division AnnealStreams(const TvmHeteroStreamsProblem& problem, Division start,
                       TvmHeteroStreamsSearch* search);

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_STREAMS_H_
