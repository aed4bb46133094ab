/*!
 * \file search/anneal.h
 * \brief What is annealed: placements with their sequences, and placements for throughput.
 */
#ifndef TVM_HETERO_SEARCH_ANNEAL_H_
#define TVM_HETERO_SEARCH_ANNEAL_H_

#include <tvm_hetero/search.h>

#include "search/problem.h"
#include "search/state.h"

namespace tvm_hetero::search {

/*! \brief Improve placement and sequence in place (latency, energy, cost). */
TvmHeteroSearchResult Anneal(const Problem& problem, const TvmHeteroSearchSettings& settings,
                             State* state);

/*!
 * \brief Improve a placement [parts] in place (throughput).
 * Throws std::invalid_argument if it is not possible, or no pipeline where it has to be one.
 */
TvmHeteroSearchResult AnnealLoads(const Problem& problem, const TvmHeteroSearchSettings& settings,
                                  int32_t* placement);

/*! \brief Whether all that a placement in contiguous stages loads is devices, with their work. */
bool OnlyWorkLoads(const Problem& problem);

/*! \brief As `AnnealLoads` where `OnlyWorkLoads`. */
TvmHeteroSearchResult AnnealStages(const Problem& problem, const TvmHeteroSearchSettings& settings,
                                   int32_t* placement);

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_ANNEAL_H_
