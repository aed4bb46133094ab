/*!
 * \file tvm_hetero/search.h
 * \brief The search library's C interface: list schedules decoded and annealed at full speed.
 *
 * A *part* is one execution: a task with some elements of the batch. A problem's arrays are copied
 * by tvm_hetero_search_create, which checks every number in them, so that no call can read or
 * write outside of what it was given. All functions but the last three return one of the codes
 * below; on failure tvm_hetero_search_message says why. They may be called from many threads at
 * once: a problem is never changed, and each call works on memory of its own.
 *
 * Items. A *sequence* lists what is decided in which order: the parts (numbers 0 .. parts - 1)
 * and, after them by number, one *fetch* for every (tensor, reader), in the order of
 * reader_begin/readers. A fetch brings its tensor to its reader's device. Sequences are
 * topological: maker, fetch, reader. Where a function takes `length` items, a sequence may leave
 * the fetches out (length = parts); each then comes right before its reader.
 */
#ifndef TVM_HETERO_SEARCH_H_
#define TVM_HETERO_SEARCH_H_

#include <stdint.h>

#define TVM_HETERO_SEARCH_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

enum { kSearchOk = 0, kSearchBadArgument = 1, kSearchNoMemory = 2, kSearchFailed = 3 };
enum { kLatency = 0, kThroughput = 1, kEnergy = 2, kCost = 3 };

/*! \brief A problem as plain arrays; D devices, P parts, T tensors. Seconds, bytes, bytes/s. */
typedef struct {
  int32_t parts, devices, tensors, tasks, groups, sizes, links;
  int32_t exclusive;             /*!< number of exclusive links */
  const double* seconds;         /*!< [P * D]; infinity where the device cannot run the part */
  const int32_t* task;           /*!< [P] the task of a part: parts of one share its weights */
  const int64_t* weights;        /*!< [P] */
  const int64_t* unread;         /*!< [P] output that nobody reads */
  const int32_t* group;          /*!< [P] parts of one group share a device */
  const int32_t* allowed_begin;  /*!< [groups + 1] where a group's devices start in `allowed` */
  const int32_t* allowed;        /*!< devices */
  const int32_t* maker;          /*!< [T] */
  const int32_t* size;           /*!< [T] its position in size_bytes */
  const int32_t* reader_begin;   /*!< [T + 1] where a tensor's readers start in `readers` */
  const int32_t* readers;        /*!< parts */
  const int64_t* size_bytes;     /*!< [sizes] the distinct sizes of tensors */
  const int32_t* link;           /*!< [D * D] the kind of link from the row's device, or -1 */
  const double* latency;         /*!< [links] */
  const double* bandwidth;       /*!< [links] */
  const int32_t* exclusive_link; /*!< [D * D] number of an exclusive link, or -1 */
  const uint8_t* copy_engine;    /*!< [D] whether copies leave the device free */
  const int64_t* capacity;       /*!< [D] bytes; -1: never too little */
  const uint8_t* staged;         /*!< [P] whether a pipeline of devices counts what it reads */
  int32_t kind;                  /*!< kLatency ... */
  int32_t acyclic;               /*!< throughput: devices must form a pipeline */
  double latency_limit;          /*!< infinity: none */
  const double* watts;           /*!< [D] energy */
  const double* idle_watts;      /*!< [D] energy */
  const double* price;           /*!< [D] cost, per second */
  int32_t shared;                /*!< number of cores that several devices share */
  const int32_t* core_begin;     /*!< [D + 1] where a device's cores start in `cores`; or null */
  const int32_t* cores;          /*!< numbers of shared cores, below `shared` */
  const int32_t* memory_of;      /*!< [D] the device that names its memory; or null: each its own */
} TvmHeteroSearchProblem;

/*! \brief How long and how to anneal. */
typedef struct {
  int64_t evaluations;  /*!< candidates to look at; 0: no limit but work */
  int64_t work;         /*!< steps to spend (about 5 ns each); 0: no limit but evaluations */
  uint64_t seed;
  double heat;       /*!< first temperature, times the value; 0: chosen by what moves change */
  double deadline;   /*!< wall seconds after which it stops whatever is left: a net only */
  int32_t restarts;  /*!< how often it warms up again from the best, within the same work */
} TvmHeteroSearchSettings;

/*! \brief Exchanges that leave a problem as it is; a complete search looks at one of each kind. */
typedef struct {
  int32_t images;        /*!< permutations of parts, without the identity: a group with it */
  const int32_t* image;  /*!< [images * P] the part that each part becomes */
  const int32_t* before; /*!< [D] the exchangeable device that is used before this one, or -1 */
} TvmHeteroSearchSymmetry;

/*! \brief What came out. */
typedef struct {
  double value;         /*!< of the objective; infinity if some tensor cannot reach its reader */
  double makespan;      /*!< s; throughput: the period */
  double excess;        /*!< 0 if memory and latency limit are kept; else by how much not */
  int64_t evaluations;
  int64_t work;
  int32_t stopped;      /*!< 1 if the deadline cut the search off, so that it cannot be repeated */
  int32_t hops;         /*!< hops of the decoded schedule */
} TvmHeteroSearchResult;

/*! \brief One hop of a decoded schedule. */
typedef struct {
  int32_t tensor, from, to;
  double start, end;
} TvmHeteroSearchHop;

typedef struct TvmHeteroSearch TvmHeteroSearch;

TVM_HETERO_SEARCH_API int tvm_hetero_search_create(const TvmHeteroSearchProblem* problem,
                                                   TvmHeteroSearch** search);
/*!
 * \brief Time one sequence.
 * \param starts, ends [parts]
 * \param hops [hop_capacity]; result->hops may be larger, then the rest is left out.
 */
TVM_HETERO_SEARCH_API int tvm_hetero_search_decode(
    const TvmHeteroSearch* search, const int32_t* placement, const int32_t* sequence,
    int32_t length, double* starts, double* ends, TvmHeteroSearchHop* hops, int32_t hop_capacity,
    TvmHeteroSearchResult* result);

/*!
 * \brief Decode `count` times as a search does, each from scratch with another order and placement.
 * For benchmarks: result->makespan is the best one.
 */
TVM_HETERO_SEARCH_API int tvm_hetero_search_decode_many(const TvmHeteroSearch* search,
                                                        const int32_t* placement,
                                                        const int32_t* sequence, int32_t length,
                                                        int64_t count, uint64_t seed,
                                                        TvmHeteroSearchResult* result);

/*!
 * \brief Improve placement and sequence in place (latency, energy, cost).
 * \param sequence [items]: `length` of them are read, all items are written.
 */
TVM_HETERO_SEARCH_API int tvm_hetero_search_anneal(const TvmHeteroSearch* search,
                                                   const TvmHeteroSearchSettings* settings,
                                                   int32_t* placement, int32_t* sequence,
                                                   int32_t length, TvmHeteroSearchResult* result);

/*! \brief Improve a placement in place for the largest load (throughput). */
TVM_HETERO_SEARCH_API int tvm_hetero_search_anneal_loads(const TvmHeteroSearch* search,
                                                         const TvmHeteroSearchSettings* settings,
                                                         int32_t* placement,
                                                         TvmHeteroSearchResult* result);

/*!
 * \brief The best of all placements and orders with a value below `cutoff` (any objective).
 *
 * settings->work is the number of nodes that it may look at; result->stopped is 1 if that or the
 * deadline cut it off, so that there may be better ones. result->value is infinity if none was
 * found; then nothing else is written. For throughput there are no times: only the placement is.
 * \param placement [parts]
 * \param starts, ends [parts]
 * \param hops [hop_capacity]; result->hops may be larger, then the rest is left out.
 */
TVM_HETERO_SEARCH_API int tvm_hetero_search_complete(
    const TvmHeteroSearch* search, const TvmHeteroSearchSettings* settings,
    const TvmHeteroSearchSymmetry* symmetry, double cutoff, int32_t* placement, double* starts,
    double* ends, TvmHeteroSearchHop* hops, int32_t hop_capacity, TvmHeteroSearchResult* result);

/*!
 * \brief Let all searches of this process end with the best that they have (`stop` not 0), or let
 * them run again (0). Any thread may call it.
 */
TVM_HETERO_SEARCH_API void tvm_hetero_search_stop(int32_t stop);

/*! \brief Why this thread's last call failed. */
TVM_HETERO_SEARCH_API const char* tvm_hetero_search_message(void);
TVM_HETERO_SEARCH_API void tvm_hetero_search_destroy(TvmHeteroSearch* search);

#ifdef __cplusplus
}
#endif
#endif  // TVM_HETERO_SEARCH_H_
