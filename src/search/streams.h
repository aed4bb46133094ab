/*!
 * \file search/streams.h
 * \brief A divided batch as a list schedule: state and decoder (see tvm_hetero/streams.h).
 *
 * An execution starts when its device is free of those earlier in the sequence and the elements
 * that it reads have arrived; copies are mere delays. A change is decoded from the first position
 * that it touches; what lies before is kept from the last committed state.
 */
#ifndef TVM_HETERO_SEARCH_STREAMS_H_
#define TVM_HETERO_SEARCH_STREAMS_H_

#include <tvm_hetero/streams.h>

#include <cstdint>
#include <vector>

namespace tvm_hetero::search {

/*! \brief Counts, devices and order, with where every range begins. */
struct Division {
  std::vector<int32_t> counts, device, sequence, begin, position;
};

class StreamDecoder {
 public:
  explicit StreamDecoder(const TvmHeteroStreamsProblem& problem);

  /*!
   * \brief Time a division that equals the committed one before position `from`.
   * \return its score; infinite if it is worse than `bound` or breaks the order of data.
   */
  double Decode(const Division& division, int from, double bound);
  /*! \brief Take over what was decoded last. */
  void Commit(const Division& division);
  int64_t work() const { return work_; }

 private:
  bool Place(const Division& division, int item, int from, double bound);
  double Arrival(const Division& division, int edge, int item, int from) const;
  double Score(const Division& division) const;
  double Excess(const Division& division) const;

  const TvmHeteroStreamsProblem& problem_;
  int streams_, devices_, items_;
  bool latency_only_, limited_;
  std::vector<double> tail_;               // least time that follows a task
  std::vector<double> ends_, kept_ends_;   // by item
  std::vector<double> clock_;              // free time of every device, then the makespan
  std::vector<double> marks_, kept_marks_; // the clock before every position
  int from_ = 0;
  int64_t work_ = 0;
};

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_STREAMS_H_
