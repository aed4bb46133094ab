/*!
 * \file search/score.h
 * \brief What a decoded schedule is worth (rule 7 of docs/formats.md), and what a search minimises.
 */
#ifndef TVM_HETERO_SEARCH_SCORE_H_
#define TVM_HETERO_SEARCH_SCORE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "search/problem.h"

namespace tvm_hetero::search {

/*! \brief A schedule's value, its makespan, and by how much it breaks limits (0: it keeps them). */
struct Score {
  double value = kInfinity;
  double makespan = kInfinity;
  double excess = 0.0;

  bool possible() const { return value < kInfinity; }
  bool BetterThan(const Score& other) const {
    if (excess != other.excess) return excess < other.excess;
    return value < other.value;
  }
};

/*! \brief By how much a makespan exceeds the latency limit, relative to it. */
inline double LateBy(const Problem& problem, double makespan) {
  // Sums of times may be off by 1e-16 each; the judge's tolerance is 1e-9.
  double limit = problem.latency_limit * (1 + 1e-10);
  return makespan <= limit ? 0.0 : makespan / limit - 1;
}

/*! \brief Energy or cost, from the busy time of every device; devices that are not used count 0. */
inline double Price(const Problem& problem, double makespan, const std::vector<double>& busy,
                    const std::vector<uint8_t>& used) {
  const Rates& rates = problem.rates;
  double total = 0.0;
  for (int d = 0; d < problem.devices; ++d) {
    if (!used[d]) continue;
    if (problem.kind == kCost) {
      total += rates.price[d] * makespan;
    } else {
      total += rates.watts[d] * busy[d] +
               rates.idle_watts[d] * std::max(0.0, makespan - busy[d]);
    }
  }
  return total;
}

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_SCORE_H_
