/*!
 * \file search/stream_dispatch.h
 * \brief The sequence that list scheduling gives a divided batch: no device waits that need not.
 *
 * A fixed sequence makes a device wait for the execution that is next, though others are ready; so
 * nearly every change of counts or devices looks bad until executions have moved, one by one. Here
 * what follows a position of the sequence is decided anew: of the executions whose elements have
 * arrived when a device gets free, that which was first in the sequence; if there is none, that
 * whose elements arrive first. Among devices the one goes first that can start first. (Such
 * schedules are called non-delay: K. R. Baker, Introduction to Sequencing and Scheduling, 1974.)
 */
#ifndef TVM_HETERO_SEARCH_STREAM_DISPATCH_H_
#define TVM_HETERO_SEARCH_STREAM_DISPATCH_H_

#include <cstdint>
#include <vector>

#include "search/rows.h"
#include "search/streams.h"

namespace tvm_hetero::search {

class StreamDispatcher {
 public:
  explicit StreamDispatcher(const TvmHeteroStreamsProblem& problem);

  /*!
   * \brief Order the executions from position `from` on anew; those before stay.
   * \param ends when each execution before `from` ends, by item
   * \param clock when each core is free then
   * \param bound makespan beyond which it is given up
   * \return whether the sequence was written: not if it would be longer than `bound`.
   */
  bool Dispatch(int from, const std::vector<double>& ends, const double* clock, double bound,
                Division* division);
  int64_t work() const { return work_; }

 private:
  struct Edge {
    int task;
    double bytes;
  };
  void Begin(int from, const std::vector<double>& ends, const double* clock,
             const Division& division);
  void Count(const Division& division, int from);
  void Release(const Division& division, int item, double end);
  void Enqueue(const Division& division, int item);
  double Start(int device, double arrival) const;
  void Emit(const Division& division, int item);
  bool InTime(int device, double start, double bound) const;
  int Next(const Division& division, double* start) const;
  bool Write(int from, Division* division);
  double Seconds(const Division& division, int item) const;
  Span<int> Cores(int device) const {
    const int32_t* begin = problem_.core_begin + device;
    return {problem_.core + begin[0], problem_.core + begin[1]};
  }
  int Best(const Division& division, int device, double* start) const;
  double Copy(const Division& division, int maker, double bytes, int item) const;

  const TvmHeteroStreamsProblem& problem_;
  int streams_, items_;
  std::vector<std::vector<Edge>> out_;
  std::vector<int> missing_;       // by item: executions that it reads and that are not placed
  std::vector<double> arrival_;    // by item: when all that is placed has arrived
  std::vector<double> clock_, left_;     // by core: free from then on, still to run
  std::vector<std::vector<int>> ready_;  // by device
  std::vector<int> free_;          // executions that take no time and are ready
  std::vector<int32_t> order_;     // what `from` and on becomes
  std::vector<char> placed_, emitted_;  // by item; by task: its empty streams were written
  int64_t work_ = 0;
};

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_STREAM_DISPATCH_H_
