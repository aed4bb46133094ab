/*!
 * \file executor/departure.h
 * \brief How a retired executor's workers leave their cores to those of the one that follows.
 *
 * Two executors on the same cores would slow each other down while the first one ends what it has in
 * flight. So a worker of the second one begins no step before the first one's workers on its core are
 * through with their parts of everything in flight: each core goes over when the last old request has
 * passed it, as in a pipeline that goes on. No deadlock: what is old never waits for what is new.
 *
 * Threads exchange their cores (core_watch.h), so a core is held by whose thread is there now, not by
 * who has it in the plan. An exchange wakes nobody: who sleeps until the core that it frees is free is
 * woken when the next worker leaves.
 */
#ifndef TVM_HETERO_EXECUTOR_DEPARTURE_H_
#define TVM_HETERO_EXECUTOR_DEPARTURE_H_

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include <tvm_hetero/plan.h>

#include "executor/pinned_thread.h"
#include "support/parker.h"

namespace tvm_hetero {

/*! \brief Which workers of an executor have left their cores, and where they are; outlives it. */
class Departure {
 public:
  explicit Departure(const Plan& plan);

  /*! \brief One a worker; nobody's where it may use several cores. */
  std::deque<PinnedThread>& threads() { return threads_; }
  // What these say is seen by who reads it in the condition of a Parker.
  bool HasLeft(int worker) const { return left_[worker].load(); }
  /*! \brief Whether the thread of a worker that has not left is on this core now. */
  bool Holds(int core) const;
  void Leave(int worker);
  /*! \brief A worker that has left is there again: its thread is started anew. */
  void Stay(int worker);
  /*! \brief Wake these whenever a worker leaves, until Unfollow. */
  void Follow(std::deque<Parker>* parkers);
  void Unfollow(const std::deque<Parker>* parkers);

 private:
  bool IsOn(size_t worker, int core) const;

  std::vector<std::vector<int>> cores_;  //!< planned, by worker; none of meetings, whose threads are others'
  std::deque<PinnedThread> threads_;
  std::deque<std::atomic<bool>> left_;
  std::atomic<int> present_{0};          //!< workers that have a thread and have not left
  std::mutex mutex_;
  std::vector<std::deque<Parker>*> followers_;
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_DEPARTURE_H_
