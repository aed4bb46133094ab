/*!
 * \file search/complete.h
 * \brief Complete search: every placement of a divided problem, and of each every order that counts.
 *
 * Placements are listed depth first, part by part in topological order. Let v be placed on d, p its
 * time there:
 *
 *   head(v) = p + max over inputs t of v (head(maker of t) + copy of t to d)
 *   makespan >= head(v) + tail(v, d)                       tail as in search/problem.h
 *   makespan >= work on any resource so far, hops included
 *   devices * makespan >= work on all devices so far + least seconds of what is not placed,
 *                         of the devices on which something can run
 *
 * From a bound T of the makespan follow bounds of the other objectives. With W, I the watts of a
 * device in use, busy and idle, L the work on it so far, and w the least of max(0, W - I) p of what
 * is not placed,
 *
 *   cost >= sum of price * T      energy >= sum of (min(W, I) T + max(0, W - I) L) + sum of w
 *
 * since a device is busy for L at least and for T at most. For throughput T is the largest load.
 *
 * Of placements that a symmetry makes of each other one is looked at, the first in the order in
 * which they are listed: symmetries are permutations of elements that leave the division as it is
 * (given as the part that each part becomes), and exchanges of devices (given for each device as the
 * one that must be in use before it is).
 */
#ifndef TVM_HETERO_SEARCH_COMPLETE_H_
#define TVM_HETERO_SEARCH_COMPLETE_H_

#include <tvm_hetero/search.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "search/activities.h"
#include "search/order_search.h"
#include "search/placement_symmetry.h"
#include "search/problem.h"

namespace tvm_hetero::search {

/*! \brief The best schedule that a complete search found; without starts for throughput. */
struct Found {
  double value = kInfinity, makespan = kInfinity;
  std::vector<int> placement;
  std::vector<double> starts, seconds;  //!< of parts and, after them, hops
  std::vector<PlacedHop> hops;
};

class CompleteSearch {
 public:
  /*! \brief Throws std::invalid_argument if a symmetry is none. */
  CompleteSearch(const Problem& problem, const TvmHeteroSearchSymmetry& symmetry,
                 StepBudget* budget);

  /*! \brief The best schedule with a value below `cutoff`; its value is infinite if there is none. */
  Found Run(double cutoff);

 private:
  /*! \brief What Take puts back. */
  struct Saved {
    std::vector<double> loads;
    std::vector<int64_t> held;
    double spent, work;
  };

  void Visit(int depth, double makespan);
  Saved Place(int part, int device, double end);
  void Take(int part, int device, const Saved& saved);
  template <typename Body>
  void ForHops(int part, int device, Body body);
  void Occupy(int device, double seconds);
  void Hold(int part, int device);
  void CountArrows(int part, int device, int by);
  int& HopUses(int tensor, int from, int to);
  int& TaskUses(int part, int device);

  double EarliestEnd(int part, int device) const;
  double Extra(int device) const;
  bool Keeps(int depth) const;
  bool Pipeline() const;
  double LeastMakespan(int depth) const;
  double LeastValue(int depth, double makespan) const;
  bool Promising(int depth, double makespan) const;

  void Finish();
  std::pair<double, double> Line() const;
  void Keep(double value, double makespan, const std::vector<double>* starts);

  const Problem& problem_;
  StepBudget* budget_;
  OrderSearch orders_;
  Activities activities_;
  PlacementSymmetry symmetry_;
  std::vector<int> place_;       //!< of a part; -1: not placed
  std::vector<int> home_;        //!< of a group whose first part is placed
  std::vector<int> uses_;        //!< parts on a device
  std::vector<int> touches_;     //!< parts on a device, and ends of hops there
  std::vector<int> task_uses_;   //!< [task, memory] parts
  std::vector<int> hop_uses_;    //!< [tensor, from, to] readers
  std::vector<int> arrows_;      //!< [from, to] reads from stage to stage
  std::vector<double> head_;     //!< head of a part, and its seconds
  std::vector<double> loads_;    //!< work on each resource, s
  std::vector<int64_t> held_;    //!< bytes that are surely in each memory
  std::vector<double> rest_seconds_, rest_spent_;  //!< least of what comes at a depth or later
  std::vector<bool> usable_;  //!< whether something can run on a device
  double work_ = 0, spent_ = 0, best_ = kInfinity, limit_;
  int usable_count_ = 0;
  Found found_;
};

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_COMPLETE_H_
