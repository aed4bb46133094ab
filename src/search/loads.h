/*!
 * \file search/loads.h
 * \brief Throughput: the load of every resource under a placement, kept up to date move by move.
 *
 * The value is the largest load of a device or exclusive link (rule 7 of docs/formats.md):
 * executions, and hops where there is no copy engine. Order plays no part. Loads are whole numbers
 * of ticks, fine enough that rounding is far below what matters, so that any number of moves leaves
 * no error behind. What a search minimises is the smooth maximum
 *
 *   s log(sum over resources r of exp(load(r) / s)),
 *
 * which is the largest load as s falls to 0. The largest load alone says nothing about moves
 * between the other resources; and at even loads every single move raises it. The smooth one
 * weighs resources, by exp(load / s), so that loads settle where these weights are the prices of
 * the linear program (tvm_hetero/bounds/throughput/share_program.py): then what a move changes is its worth.
 *
 * Where every two devices have a direct link, a part that moves changes its tensors' hops one by
 * one; else the routes of its tensors are taken out and put back.
 */
#ifndef TVM_HETERO_SEARCH_LOADS_H_
#define TVM_HETERO_SEARCH_LOADS_H_

#include <tvm_hetero/search.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "search/problem.h"
#include "search/score.h"

namespace tvm_hetero::search {

class Loads {
 public:
  /*! \brief Throws std::invalid_argument if the placement is not possible. */
  Loads(const Problem& problem, const int32_t* placement);

  void Move(int group, int device);
  int device(int part) const { return device_[part]; }
  const std::vector<int>& placement() const { return device_; }
  /*! \brief The resource with the largest load. */
  int Busiest() const;

  /*! \brief Choose s, in seconds. */
  void Smooth(double seconds);
  /*! \brief What is minimised, without penalties, in seconds. */
  double Cost();
  /*! \brief Value (s) and excess of memory; value infinity where it is no placement at all. */
  Score Valued() const;
  /*! \brief Whether devices form a pipeline, if they have to. */
  bool Pipeline();
  /*! \brief Steps so far. */
  int64_t work() const { return work_ * charge_; }
  /*! \brief What a step counts: on large problems most of its time is waiting for memory. */
  int charge() const { return charge_; }

 private:
  void MovePart(int part, int device);
  void MoveReader(int tensor, int from, int to);
  void MoveMaker(int tensor, int from, int to);
  void AddExecution(int part, int device, int sign);
  void AddTensor(int tensor, int sign);
  void AddBytes(int tensor, int device, int sign);
  void AddHop(int tensor, int from, int to, int sign);
  void AddFlow(int maker, int reader, int sign);
  void AddFlows(int part, int sign);
  void Add(int resource, int64_t ticks);
  double Term(int resource) const;
  void SumUp();
  template <typename Visit>
  void ForEachTarget(int tensor, Visit visit);
  int32_t& CountOf(int tensor, int device) {
    return readers_on_[static_cast<size_t>(tensor) * problem_->devices + device];
  }
  void ChooseTicks();
  void ReadPlacement(const int32_t* placement);

  const Problem* problem_;
  double ticks_per_second_ = 1.0;
  std::vector<int> device_;             //!< of a part
  std::vector<int64_t> ticks_;          //!< [part, device]
  std::vector<int64_t> hop_ticks_;      //!< [size, kind of link]
  std::vector<int32_t> readers_on_;     //!< [tensor, device]
  std::vector<int32_t> holders_;        //!< [task, memory]: parts there
  std::vector<int32_t> comings_;        //!< [tensor, memory]: ways it came, where several see it
  std::vector<int64_t> bytes_;          //!< in a memory
  std::vector<int64_t> tree_;           //!< loads, and the larger of every two: a tournament
  int leaves_;
  double smooth_ = 1.0;                 //!< s in ticks
  double reference_ = 0.0;              //!< a load (ticks) that is taken off all others
  std::vector<double> terms_;           //!< exp((load - reference) / s), and their sum
  double sum_ = 0.0;
  std::vector<int> changed_;            //!< resources whose terms are out of date, each once
  std::vector<uint8_t> is_changed_;
  std::vector<int32_t> flows_;          //!< [from, to]: readings across that count; only if acyclic
  std::vector<int> rank_;               //!< of a device in the last pipeline that was seen
  int backward_ = 0;                    //!< pairs of devices with flows against these ranks
  std::vector<std::pair<int, int>> hops_;  //!< memory of AddTensor
  std::vector<int> marked_;             //!< by device: the tensor that was last seen there
  int marks_ = 0;
  int64_t unreachable_ = 0;             //!< readers that their tensors cannot reach
  int64_t work_ = 0;
  int charge_;
};

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_LOADS_H_
