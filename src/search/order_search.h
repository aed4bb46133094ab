/*!
 * \file search/order_search.h
 * \brief The least makespan of one placement, by branch and bound over the orders of activities.
 *
 * Moving an activity to the left with the others kept harms no objective, so two kinds of schedule
 * are enough:
 *
 * - Where memory cannot run out, *active* ones: B. Giffler, G. L. Thompson (Operations Research
 *   8(4), 1960, doi:10.1287/opre.8.4.487). Of the activities that could go next, let a be one that
 *   would end first, at c: next goes a, or one that shares a resource with a and could start before
 *   c.                                                                        -> VisitActive
 * - Where memory binds, an activity may also wait for memory, which is given back when something
 *   ends: activities are placed in the order of their starts, each at 0 or at an end. If everything
 *   takes time, an activity goes where it first fits: all that starts earlier is placed, so if it
 *   fitted at an earlier moment, it could be moved there. What takes no time may make room at the
 *   very moment at which it starts, so while there is such a thing to come, moments at which an
 *   activity does not fit yet are tried as well.
 *                                                                             -> VisitWaiting
 *
 * The first is a relaxation of the second: its least makespan is a bound, and if its schedule keeps
 * the memory, it is the answer.
 *
 * What cannot end before the best known makespan is cut off. With head(a) the earliest start of an
 * activity given what is placed, tail(a) the longest chain from its start on, p its length:
 *
 *   makespan >= head(a) + tail(a)
 *   makespan >= min head + sum of p + min (tail - p)    over any activities of one resource
 *
 * The sets tried are, of each resource, the k activities with the largest heads, for every k.
 * Besides, what has been reached before is not gone on with (search/dominance.h), nor what no order
 * of the rest can keep the memory of (search/memory_order.h).
 */
#ifndef TVM_HETERO_SEARCH_ORDER_SEARCH_H_
#define TVM_HETERO_SEARCH_ORDER_SEARCH_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "search/activities.h"
#include "search/dominance.h"
#include "search/memory_order.h"
#include "search/stop.h"

namespace tvm_hetero::search {

/*! \brief Steps that a search may still take; the clock is only a net. */
class StepBudget {
 public:
  StepBudget(int64_t steps, double seconds)
      : left_(steps), end_(std::chrono::steady_clock::now() +
                           std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                               std::chrono::duration<double>(seconds))) {}

  /*! \brief Take one step; false if there is none. */
  bool Spend() {
    --left_;
    if ((left_ & 1023) == 0 && left_ > 0 &&
        (IsStopped() || std::chrono::steady_clock::now() > end_)) {
      left_ = -1;
      stopped_ = true;
    }
    return left_ >= 0;
  }
  bool exhausted() const { return left_ < 0; }
  int64_t left() const { return left_; }
  bool stopped() const { return stopped_; }

 private:
  int64_t left_;
  bool stopped_ = false;
  std::chrono::steady_clock::time_point end_;
};

class OrderSearch {
 public:
  OrderSearch(const Problem& problem, StepBudget* budget)
      : problem_(problem), budget_(budget), memory_(problem) {}

  /*!
   * \brief Look for the least makespan below `cutoff`, s.
   * \param any whether the first schedule that is found will do.
   * \return whether one was found; its times are in starts(). If the budget ran out there may be
   *         better ones.
   */
  bool Run(const Activities& activities, double cutoff, bool any);

  double makespan() const { return best_; }
  const std::vector<double>& starts() const { return found_; }

 private:
  void Reset();
  void VisitActive();
  void VisitWaiting(double now);
  bool Hopeless(double now);
  bool ResourceHopeless();
  void FindHeads(double now);
  void Put(int a, double start);
  void Take(int a);
  void Keep();
  double Earliest(int a) const;
  bool Fits(double moment, int extra) const;
  bool FitsThroughout(const std::vector<double>& starts) const;
  bool Dominated(double now, bool waiting);

  const Problem& problem_;
  StepBudget* budget_;
  const Activities* given_ = nullptr;
  double best_ = 0, floor_ = 0;
  bool any_ = false, done_ = false, few_ = false;
  int placed_ = 0;
  std::vector<double> start_, end_, free_, head_, found_;
  std::vector<uint8_t> is_placed_;
  std::vector<int> waiting_;
  std::vector<std::vector<int>> users_;         //!< activities of each resource
  std::vector<std::vector<double>> free_stack_; //!< what Take gives back
  std::vector<int> by_head_;
  std::vector<double> times_;
  uint64_t bits_ = 0;  //!< what is placed
  Dominance seen_;
  MemoryOrder memory_;
};

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_ORDER_SEARCH_H_
