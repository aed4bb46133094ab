/*!
 * \file streams.h
 * \brief The search for how a batch is divided (libtvm_hetero_search.so, see search.h).
 *
 * A stream of a task is a contiguous range of the batch that one execution takes; the ranges of
 * its streams follow one another. Item task * streams + stream is that execution. Tasks are
 * numbered in a topological order. All times are in seconds, all sizes in bytes.
 */
#ifndef TVM_HETERO_STREAMS_H_
#define TVM_HETERO_STREAMS_H_

#include <tvm_hetero/search.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief What is divided. */
typedef struct {
  int32_t tasks, devices, streams, batch, edges;
  const double* seconds;     /*!< [tasks][devices][batch + 1]; infinite where one cannot run */
  const int32_t* in_begin;   /*!< [tasks + 1]: edges in_begin[v] .. in_begin[v + 1] - 1 enter v */
  const int32_t* in_task;    /*!< [edges]: who makes the tensor, a task of a smaller number */
  const double* in_bytes;    /*!< [edges]: bytes of one element */
  const double* latency;     /*!< [devices][devices] of a copy; infinite where no path leads */
  const double* inverse;     /*!< [devices][devices] seconds a byte of a copy */
  const uint8_t* loose;      /*!< [tasks]: takes no time, so its elements go one by one */
  const int32_t* group;      /*!< [tasks]: tasks of one number are on one device; -1: alone */
  const double* weights;     /*!< [tasks]: bytes that each device which runs the task holds */
  const double* capacity;    /*!< [devices] bytes; infinite for no limit */
  const double* busy_price;  /*!< [devices]: value of a busy second of a device in use */
  const double* span_price;  /*!< [devices]: value of a second of makespan of a device in use */
  double span;               /*!< value of a second of makespan */
  double limit;              /*!< of the makespan; infinite for none */
  int32_t cores;             /*!< number of what executions keep busy: devices, or cores of teams */
  const int32_t* core_begin; /*!< [devices + 1] where a device's cores start in `core` */
  const int32_t* core;       /*!< below `cores`: a device is on one at least */
} TvmHeteroStreamsProblem;

/*! \brief What a search may take, and what came of it. */
typedef struct {
  int64_t work;     /*!< items that may be decoded (in); that were (out) */
  uint64_t seed;
  double heat;      /*!< first temperature in parts of the value */
  double deadline;  /*!< wall seconds after which it stops at once: a net, not a plan */
  double value;     /*!< of the best; infinite if the start cannot be decoded (out) */
  int32_t stopped;  /*!< 1 if the deadline cut it off (out) */
} TvmHeteroStreamsSearch;

/*!
 * \brief Improve a division in place.
 * \param counts [items] elements of every stream, of sum `batch` for each task
 * \param device [items]
 * \param sequence [items] in which order executions are decided
 */
TVM_HETERO_SEARCH_API int tvm_hetero_streams_anneal(const TvmHeteroStreamsProblem* problem,
                                                    TvmHeteroStreamsSearch* search,
                                                    int32_t* counts, int32_t* device,
                                                    int32_t* sequence);

#ifdef __cplusplus
}
#endif
#endif  // TVM_HETERO_STREAMS_H_
