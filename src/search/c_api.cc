/*!
 * \file search/c_api.cc
 * \brief The C interface: nothing that goes wrong inside may reach the caller as an exception.
 */
#include <tvm_hetero/search.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "search/anneal.h"
#include "search/complete.h"
#include "search/fast_decoder.h"
#include "search/general_decoder.h"
#include "search/moves.h"
#include "search/problem.h"
#include "search/random.h"
#include "search/state.h"
#include "search/stop.h"

using tvm_hetero::search::Problem;
using tvm_hetero::search::Score;
using tvm_hetero::search::State;

struct TvmHeteroSearch {
  explicit TvmHeteroSearch(const TvmHeteroSearchProblem& given) : problem(given) {}
  Problem problem;
};

namespace {

std::string& Message() {
  thread_local std::string message;
  return message;
}

template <typename Body>
int Guarded(Body body) {
  try {
    Message().clear();
    body();
    return kSearchOk;
  } catch (const std::invalid_argument& error) {
    Message() = error.what();
    return kSearchBadArgument;
  } catch (const std::bad_alloc&) {
    return kSearchNoMemory;
  } catch (const std::exception& error) {
    Message() = error.what();
    return kSearchFailed;
  } catch (...) {
    return kSearchFailed;
  }
}

void Require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

void CheckSettings(const TvmHeteroSearchSettings& settings) {
  Require(settings.evaluations >= 0 && settings.work >= 0, "a budget below 0");
  Require(settings.evaluations > 0 || settings.work > 0, "neither evaluations nor work is limited");
  Require(settings.heat >= 0 && settings.deadline >= 0, "a heat or deadline below 0");
  Require(settings.restarts >= 0 && settings.restarts <= 1000000, "restarts out of range");
}

TvmHeteroSearchResult Result(const Score& score, int64_t evaluations, int64_t work) {
  return {score.value, score.makespan, score.excess, evaluations, work, 0, 0};
}

/*! \brief Decode random neighbours of a state from scratch, as the benchmark wants it. */
template <typename Decoder>
TvmHeteroSearchResult DecodeMany(const Problem& problem, State state, int64_t count,
                                 uint64_t seed) {
  tvm_hetero::search::Random random(seed);
  tvm_hetero::search::Moves moves(problem);
  Decoder decoder(problem);
  Score best;
  for (int64_t i = 0; i < count; ++i) {
    moves.Propose(&state, &random);
    Score score = decoder.Decode(state);
    if (score.BetterThan(best) || i == 0) best = score;
  }
  return Result(best, count, decoder.work());
}

}  // namespace

int tvm_hetero_search_create(const TvmHeteroSearchProblem* problem, TvmHeteroSearch** search) {
  return Guarded([&] {
    Require(problem != nullptr && search != nullptr, "a null pointer");
    *search = new TvmHeteroSearch(*problem);
  });
}

int tvm_hetero_search_decode(const TvmHeteroSearch* search, const int32_t* placement,
                             const int32_t* sequence, int32_t length, double* starts, double* ends,
                             TvmHeteroSearchHop* hops, int32_t hop_capacity,
                             TvmHeteroSearchResult* result) {
  return Guarded([&] {
    const Problem& problem = search->problem;
    // The general decoder times every problem, and writes down the hops that the fast one skips.
    State state(problem, placement, sequence, length, true);
    std::vector<TvmHeteroSearchHop> made;
    tvm_hetero::search::GeneralDecoder decoder(problem);
    Score score = decoder.Record(state, &made);
    for (int v = 0; v < problem.parts; ++v) {
      starts[v] = decoder.start(v);
      ends[v] = decoder.end(v);
    }
    std::copy_n(made.begin(), std::min<size_t>(made.size(), std::max(0, hop_capacity)), hops);
    *result = Result(score, 1, decoder.work());
    result->hops = static_cast<int32_t>(made.size());
  });
}

int tvm_hetero_search_decode_many(const TvmHeteroSearch* search, const int32_t* placement,
                                  const int32_t* sequence, int32_t length, int64_t count,
                                  uint64_t seed, TvmHeteroSearchResult* result) {
  return Guarded([&] {
    Require(count >= 0, "a count below 0");
    const Problem& problem = search->problem;
    State state(problem, placement, sequence, length, !problem.simple());
    *result = problem.simple()
                  ? DecodeMany<tvm_hetero::search::FastDecoder>(problem, state, count, seed)
                  : DecodeMany<tvm_hetero::search::GeneralDecoder>(problem, state, count, seed);
  });
}

int tvm_hetero_search_anneal(const TvmHeteroSearch* search,
                             const TvmHeteroSearchSettings* settings, int32_t* placement,
                             int32_t* sequence, int32_t length, TvmHeteroSearchResult* result) {
  return Guarded([&] {
    CheckSettings(*settings);
    const Problem& problem = search->problem;
    State state(problem, placement, sequence, length, !problem.simple());
    *result = tvm_hetero::search::Anneal(problem, *settings, &state);
    std::copy(state.placement().begin(), state.placement().end(), placement);
    std::vector<int32_t> items = state.Sequence();
    std::copy(items.begin(), items.end(), sequence);
  });
}

int tvm_hetero_search_anneal_loads(const TvmHeteroSearch* search,
                                   const TvmHeteroSearchSettings* settings, int32_t* placement,
                                   TvmHeteroSearchResult* result) {
  return Guarded([&] {
    CheckSettings(*settings);
    *result = tvm_hetero::search::AnnealLoads(search->problem, *settings, placement);
  });
}

int tvm_hetero_search_complete(const TvmHeteroSearch* search,
                               const TvmHeteroSearchSettings* settings,
                               const TvmHeteroSearchSymmetry* symmetry, double cutoff,
                               int32_t* placement, double* starts, double* ends,
                               TvmHeteroSearchHop* hops, int32_t hop_capacity,
                               TvmHeteroSearchResult* result) {
  return Guarded([&] {
    CheckSettings(*settings);
    Require(symmetry->images >= 0, "images below 0");
    Require(cutoff >= 0, "a cutoff below 0");
    const Problem& problem = search->problem;
    tvm_hetero::search::StepBudget budget(settings->work, settings->deadline);
    tvm_hetero::search::CompleteSearch complete(problem, *symmetry, &budget);
    const tvm_hetero::search::Found found = complete.Run(cutoff);
    *result = Result({found.value, found.makespan, 0.0}, 0, settings->work - budget.left());
    result->stopped = budget.exhausted();
    result->hops = static_cast<int32_t>(found.hops.size());
    std::copy(found.placement.begin(), found.placement.end(), placement);
    const int parts = found.starts.empty() ? 0 : problem.parts;
    for (int a = 0; a < static_cast<int>(found.starts.size()); ++a) {
      const double start = found.starts[a], end = start + found.seconds[a];
      if (a < parts) {
        starts[a] = start;
        ends[a] = end;
      } else if (a - parts < hop_capacity) {
        const tvm_hetero::search::PlacedHop& hop = found.hops[a - parts];
        hops[a - parts] = {hop.tensor, hop.from, hop.to, start, end};
      }
    }
  });
}

void tvm_hetero_search_stop(int32_t stop) {
  tvm_hetero::search::Stopped().store(stop != 0, std::memory_order_relaxed);
}

const char* tvm_hetero_search_message(void) { return Message().c_str(); }

void tvm_hetero_search_destroy(TvmHeteroSearch* search) { delete search; }
