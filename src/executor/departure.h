/*!
 * \file executor/departure.h
 * \brief How a retired executor's workers leave their cores to those of the one that follows.
 *
 * Two executors on the same cores would slow each other down while the first one ends what it has in
 * flight. So a worker of the second one begins no step before the first one's workers on its core are
 * through with their parts of everything in flight: each core goes over when the last old request has
 * passed it, as in a pipeline that goes on. No deadlock: what is old never waits for what is new.
 */
#ifndef TVM_HETERO_EXECUTOR_DEPARTURE_H_
#define TVM_HETERO_EXECUTOR_DEPARTURE_H_

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include <tvm_hetero/plan.h>

#include "support/parker.h"

namespace tvm_hetero {

/*! \brief Which workers of an executor have left their cores; outlives it. */
class Departure {
 public:
  explicit Departure(const Plan& plan);

  /*! \brief Workers whose threads are on one of these cores. */
  std::vector<int> WorkersOn(const std::vector<int>& cores) const;
  /*! \brief Seen by who reads it in the condition of a Parker. */
  bool HasLeft(int worker) const { return left_[worker].load(); }
  void Leave(int worker);
  /*! \brief A worker that has left is there again: its thread is started anew. */
  void Stay(int worker) { left_[worker].store(false); }
  /*! \brief Wake these whenever a worker leaves, until Unfollow. */
  void Follow(std::deque<Parker>* parkers);
  void Unfollow(const std::deque<Parker>* parkers);

 private:
  std::vector<std::vector<int>> cores_;  //!< by worker; none of meetings, whose threads are others'
  std::deque<std::atomic<bool>> left_;
  std::mutex mutex_;
  std::vector<std::deque<Parker>*> followers_;
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_DEPARTURE_H_
