#include "search/anneal.h"

#include <algorithm>

#include "search/annealer.h"
#include "search/fast_decoder.h"
#include "search/general_decoder.h"
#include "search/moves.h"

namespace tvm_hetero::search {
namespace {

constexpr Tuning kTuning{0.1, 1e-2, 8};

/*! \brief A state, the decoder that times it, and its best ancestor. See annealer.h. */
template <typename Decoder>
class ListModel {
 public:
  ListModel(const Problem& problem, State* state)
      : decoder_(problem), moves_(problem), state_(state), best_(*state) {
    Same();
  }

  Score Start() { return decoder_.Decode(*state_); }

  bool Propose(Random* random) {
    if (moves_.Propose(state_, random) && state_->changed()) return true;
    state_->Undo();
    return false;
  }

  Score Evaluate(double limit) { return decoder_.Evaluate(*state_, limit); }
  double CostOf(const Score& score) const { return score.value; }
  void Cool(double) {}

  void Accept() {
    decoder_.Accept(*state_);
    first_ = std::min(first_, state_->first());
    last_ = std::max(last_, state_->last());
  }

  void Reject() {
    state_->Undo();
    decoder_.Reject(*state_);
  }

  /*! \brief Copies what has changed since the last time: most improvements are small. */
  void Keep() {
    best_.CopyRange(*state_, first_, last_);
    Same();
  }

  Score Return() {
    state_->CopyFrom(best_);
    Same();
    return decoder_.Decode(*state_);
  }

  int64_t work() const { return decoder_.work(); }

 private:
  void Same() {
    first_ = static_cast<int>(state_->order().size());
    last_ = -1;
  }

  Decoder decoder_;
  Moves moves_;
  State* state_;
  State best_;
  int first_ = 0, last_ = -1;  //!< where the state may differ from the best one
};

template <typename Decoder>
TvmHeteroSearchResult AnnealWith(const Problem& problem, const TvmHeteroSearchSettings& settings,
                                 State* state) {
  ListModel<Decoder> model(problem, state);
  return Annealer<ListModel<Decoder>>(settings, kTuning, &model).Run();
}

}  // namespace

TvmHeteroSearchResult Anneal(const Problem& problem, const TvmHeteroSearchSettings& settings,
                             State* state) {
  if (problem.simple()) return AnnealWith<FastDecoder>(problem, settings, state);
  return AnnealWith<GeneralDecoder>(problem, settings, state);
}

}  // namespace tvm_hetero::search
