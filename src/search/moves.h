/*!
 * \file search/moves.h
 * \brief The neighbourhood of the search: one small random change of a state.
 *
 * Places: a group to another device, alone or with some parts that it talks to; a connected
 * cluster that runs on one device; two groups that swap devices. Order: an item to another
 * position between what it waits for and what waits for it.
 */
#ifndef TVM_HETERO_SEARCH_MOVES_H_
#define TVM_HETERO_SEARCH_MOVES_H_

#include <vector>

#include "search/problem.h"
#include "search/random.h"
#include "search/state.h"

namespace tvm_hetero::search {

class Moves {
 public:
  explicit Moves(const Problem& problem);

  /*! \brief Whether there is anything to change at all. */
  bool any() const { return problem_->items() > 1 || !movable_.empty(); }
  /*! \brief Change the state a little; false if the draw led to no change. */
  bool Propose(State* state, Random* random);

 private:
  bool PlaceOne(State* state, Random* random);
  bool PlaceCluster(State* state, Random* random);
  bool Swap(State* state, Random* random);
  bool ShiftPart(State* state, Random* random);
  bool ShiftFetch(State* state, Random* random);
  bool ShiftItem(int item, State* state, Random* random);
  bool TryPlace(int part, int device, State* state);
  int OtherDevice(int group, int device, Random* random);

  const Problem* problem_;
  std::vector<int> movable_;  //!< groups that may run on several devices
  std::vector<int> cluster_;
  std::vector<int> seen_;  //!< by part: the number of the cluster that it was last in
  int clusters_ = 0;
};

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_MOVES_H_
