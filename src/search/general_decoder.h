/*!
 * \file search/general_decoder.h
 * \brief Times a sequence where hops keep devices and links busy, or memory can lack.
 *
 * Items are taken in the order of the sequence, and all that they do is appended: an execution to
 * its device, each hop of a fetch to the ends that lack a copy engine and to an exclusive link
 * (rules 2 to 4). A hop that an earlier fetch of the same tensor made is not made again. Where a
 * fetch stands in the sequence decides what comes before its hops on what they keep busy, so the
 * sequences reach every schedule in which nothing can start earlier with the orders kept.
 *
 * Memory is looked after by `Memory`; with it, and for energy and cost, every candidate is decoded
 * from the beginning.
 */
#ifndef TVM_HETERO_SEARCH_GENERAL_DECODER_H_
#define TVM_HETERO_SEARCH_GENERAL_DECODER_H_

#include <tvm_hetero/search.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "search/memory.h"
#include "search/problem.h"
#include "search/score.h"
#include "search/state.h"

namespace tvm_hetero::search {

class GeneralDecoder {
 public:
  explicit GeneralDecoder(const Problem& problem);

  /*! \brief Decode everything and accept it. */
  Score Decode(const State& state);
  /*!
   * \brief Decode a changed state. One whose makespan surely exceeds `limit` has value infinity.
   * Must be followed by Accept, or by Reject after the state has been undone.
   */
  Score Evaluate(const State& state, double limit);
  void Accept(const State& state);
  void Reject(const State& state);

  /*! \brief As Decode, and write down all hops in the order in which they were appended. */
  Score Record(const State& state, std::vector<TvmHeteroSearchHop>* hops);
  double start(int part) const { return starts_[part]; }
  double end(int part) const { return done_[part]; }
  /*! \brief Items timed so far. */
  int64_t work() const { return work_; }

 private:
  /*! \brief A hop of a tensor to a device: made by the fetch at `position` in decoding `run`. */
  struct Arrival {
    double end = 0.0;
    int from = -1;
    int position = -1;
    int64_t run = -1;
  };

  bool There(const Arrival& arrival) const {
    if (arrival.run == run_) return true;
    return arrival.position >= 0 && arrival.position < from_ &&
           arrival.run == run_at_[arrival.position];
  }
  Score Run(const State& state, int from, double limit);
  bool RunFetch(const State& state, int fetch, int position, double limit);
  bool RunPart(const State& state, int part, double limit);
  double Hop(int tensor, int from, int to, int position, double ready);
  Score Valued();
  double* Row(std::vector<double>* rows, int row) {
    return rows->data() + static_cast<size_t>(row) * resources_;
  }

  const Problem* problem_;
  int resources_;
  int step_;
  bool partial_;  //!< whether decoding may begin at a checkpoint
  Memory memory_;
  std::vector<double> free_;             //!< when each resource is through
  std::vector<double> done_, kept_;      //!< by item: ends of the candidate, of the accepted state
  std::vector<double> starts_;           //!< by part
  std::vector<double> rows_, fresh_;     //!< `free_` at checkpoints: accepted, of the candidate
  std::vector<Arrival> arrivals_;        //!< [tensor, device]
  std::vector<std::pair<size_t, Arrival>> replaced_;  //!< arrivals of the accepted state
  std::vector<int64_t> run_at_;          //!< by position: the decoding that it was accepted in
  std::vector<double> busy_;
  std::vector<uint8_t> used_;
  std::vector<TvmHeteroSearchHop>* record_ = nullptr;
  int64_t run_ = 0;
  int from_ = 0, stop_ = 0;
  int restore_ = 0;
  int64_t work_ = 0;
};

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_GENERAL_DECODER_H_
