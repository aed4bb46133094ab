/*!
 * \file tvm_hetero/stage_reach.h
 * \brief C interface of the question that `tvm_hetero/solvers/stage_dp/device_sets.py` asks again
 * and again:
 * in which ways can devices be used to run each ideal in stages of at most some load?
 *
 * A way is a bit of a set, and using one more device of kind k moves it up by stride[k] bits.
 * Codes and message as in search.h, of which this is a part of the library.
 */
#ifndef TVM_HETERO_STAGE_REACH_H_
#define TVM_HETERO_STAGE_REACH_H_

#include <stdint.h>

#include "search.h"

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief Ideals by rising size and the stages between them, as plain arrays. */
typedef struct {
  int32_t ideals, kinds, words; /*!< words: 64 ways each */
  const uint64_t* free;         /*!< [kinds * words] ways that leave a device of the kind */
  const int32_t* stride;        /*!< [kinds] */
  const int64_t* begin;         /*!< [ideals + 1] where the stages behind an ideal start */
  const int32_t* kind;          /*!< of each stage */
  const int32_t* later;         /*!< the ideal that it ends in, larger than the one before it */
  const double* load;           /*!< s */
  const double* beyond;         /*!< what its load would be with one more block; or infinity */
} TvmHeteroStages;

/*!
 * \brief Ways that reach each ideal in stages with load <= most < beyond.
 * \param seconds wall time after which it stops.
 * \param found [ideals * words] all zero but for the ways of the first ideal.
 * \param late set to 1 if the time was up, and to 0 if not.
 */
TVM_HETERO_SEARCH_API int tvm_hetero_search_stage_reach(const TvmHeteroStages* stages, double most,
                                                 double seconds, uint64_t* found, int32_t* late);

#ifdef __cplusplus
}
#endif
#endif  // TVM_HETERO_STAGE_REACH_H_
