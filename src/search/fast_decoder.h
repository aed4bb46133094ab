/*!
 * \file search/fast_decoder.h
 * \brief Times a sequence where copies are in nobody's way and memory never lacks.
 *
 * A part starts when its device (each core of a team) is through with the parts before it in the
 * sequence, and all that it reads has arrived; an input arrives when its maker has ended plus the delay of the way.
 *
 * Three things make a candidate cheap that differs from a decoded state in a few places:
 *
 * - decoding begins at the last checkpoint (clocks of all devices, every `step_` positions) before
 *   the first change;
 * - it is given up as soon as the end of some part plus its tail exceeds the limit above which the
 *   search would not accept it anyway;
 * - it stops at a checkpoint behind the last change where all clocks are as before and no part
 *   still to be read has ended at another time: from there on everything is as before.
 *
 * Energy and cost need the whole schedule, so of these they only use the first.
 */
#ifndef TVM_HETERO_SEARCH_FAST_DECODER_H_
#define TVM_HETERO_SEARCH_FAST_DECODER_H_

#include <cstdint>
#include <vector>

#include "search/problem.h"
#include "search/score.h"
#include "search/state.h"

namespace tvm_hetero::search {

class FastDecoder {
 public:
  explicit FastDecoder(const Problem& problem);

  /*! \brief Decode everything and accept it. */
  Score Decode(const State& state);
  /*!
   * \brief Decode a changed state. One whose makespan surely exceeds `limit` has value infinity.
   * Must be followed by Accept, or by Reject after the state has been undone.
   */
  Score Evaluate(const State& state, double limit);
  void Accept(const State& state);
  void Reject(const State& state);

  /*! \brief Parts timed so far. */
  int64_t work() const { return work_; }

 private:
  struct Source {
    int maker;
    int size;
  };

  double Delay(int size, int from, int to) const {
    if (dense_.empty()) return problem_->links.Delay(size, from, to);
    return dense_[(static_cast<size_t>(size) * devices_ + from) * devices_ + to];
  }
  double* Row(std::vector<double>* rows, int row) {
    return rows->data() + static_cast<size_t>(row) * clocks_;
  }
  double Run(const State& state, int from, int last, double limit);
  template <bool kDense, bool kTeams>
  bool RunRange(const State& state, int from, int to, double limit);
  bool Settled(const State& state, int position);
  Score Valued(const State& state, double makespan);

  const Problem* problem_;
  int devices_;
  int clocks_;  //!< devices; or, of teams, all resources
  int step_;
  std::vector<double> dense_;  //!< delays [size, from, to]; empty if that would be too large
  std::vector<int> source_begin_;
  std::vector<Source> sources_;  //!< of each part, one for every maker: the largest tensor
  std::vector<double> clock_;
  std::vector<double> ends_, kept_;   //!< by part: of the candidate, of the accepted state
  std::vector<double> rows_, fresh_;  //!< clocks at checkpoints: accepted, of the candidate
  std::vector<double> busy_;
  std::vector<uint8_t> used_;
  double makespan_ = 0.0;  //!< accepted
  double candidate_ = 0.0;
  int from_ = 0, stop_ = 0;  //!< positions that the last run has timed
  int restore_ = 0;          //!< end of the positions that a rejection has to restore
  int settled_ = 0;          //!< positions before this one are known to be settled
  int64_t work_ = 0;
};

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_FAST_DECODER_H_
