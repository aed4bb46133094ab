/*!
 * \file executor/request_desk.h
 * \brief Where requests come in, are given a frame in the order of their tickets, and end.
 *
 * One lock guards the list of requests, the free frames and the queue of tickets. It is held for
 * some hundred nanoseconds at a time, and never while a tensor is freed or Python is called: both
 * may need Python's lock, whose holder may be on his way to ours.
 *
 * How a request ends. By its last worker leaving its frame (Finish): with outputs, or with the error
 * of the earliest step that failed. Or before that, by being cancelled, late or caught by Close: it
 * is done at once then, its frame is marked to be skipped, and the workers leave it one by one.
 */
#ifndef TVM_HETERO_EXECUTOR_REQUEST_DESK_H_
#define TVM_HETERO_EXECUTOR_REQUEST_DESK_H_

#include <tvm_hetero/plan.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "executor/caller_spin.h"
#include "executor/program.h"
#include "executor/request.h"
#include "executor/state.h"
#include "executor/step_log.h"

namespace tvm_hetero {

using RequestPtr = std::shared_ptr<Request>;

class RequestDesk {
 public:
  /*! \param restart Starts a worker again whose thread has ended; called with the lock held. */
  RequestDesk(const Plan& plan, const Program& program, ExecutorState* state,
              std::function<void(int worker)> restart);

  // ---- for those who have something to be run; all may be interrupted (EnvErrorAlreadySet)

  /*!
   * \brief Wait for a turn and a free frame, and begin.
   * \param room How long to wait for them; none: as long as it takes.
   * \param listed Whether the request gets a number by which it can be found.
   * \return null if there was no room in time.
   * \throws RuntimeError if the desk is closed, or the request's deadline passed first.
   */
  RequestPtr Submit(RequestPtr request, TimeLimit room, bool listed);
  /*! \brief Whether a request was done in time. Its own deadline ends it, and the wait. */
  bool Wait(const RequestPtr& request, TimeLimit limit);
  /*! \brief Wait until no worker is at a request any more that is done; not beyond `limit`. */
  void Drain(const RequestPtr& request, TimeLimit limit = std::nullopt);
  /*! \brief End a request at once. \return false if it was done already. */
  bool Cancel(const RequestPtr& request);
  /*! \brief The number of a request that is done and was to be told of; 0 if none was in time. */
  int64_t NextDone(TimeLimit limit);

  // ---- short ones

  /*! \brief A request by its number; throws IndexError where there is none. */
  RequestPtr Find(int64_t id) const;
  /*! \brief Take a request that is done off the list. */
  RequestPtr Remove(int64_t id, bool must_be_done);
  /*! \brief End all requests in flight, and refuse all further ones. */
  void Close();
  /*!
   * \brief Refuse all further requests, and wait until none is in flight; not beyond `limit`.
   * \return false if that came first.
   */
  bool Retire(TimeLimit limit);
  bool closed() const;
  /*! \brief Do something to what workers read, with none of them at work; throws if one is. */
  void WhenIdle(const std::function<void()>& change);
  /*! \brief What was measured of the last batch that has ended (of `only`, if it is not 0). */
  Record LastRecord() const;
  void RecordOnly(uint64_t batch);
  uint64_t last_batch() const { return state_->announced.load(); }
  /*! \brief Slots made by steps that hold a tensor though no batch is in their frame. */
  std::vector<bool> LeakedSlots() const;
  StepLog* log() { return &log_; }

  // ---- for workers

  /*! \brief A step has failed; of several the first of the plan is told. */
  void Fail(Frame* frame, StepError error);
  /*! \brief The deadline of a batch has passed. */
  void Expire(Frame* frame);
  /*! \brief All workers have left a frame. */
  void Finish(Frame* frame);
  /*!
   * \brief A worker's thread is about to end: fail all that is in flight. Nothing begins until Bury:
   *        who sees that his request has failed may submit the next one, which is to be served.
   */
  void FailAll(const std::string& message);
  /*! \brief It has left all batches, and ends. */
  void Bury(int worker);

 private:
  struct Ticket {
    std::condition_variable called;
  };
  class InLine;
  using Lock = std::unique_lock<std::mutex>;

  Lock Acquire() const;

  // All of these need the lock.
  void RequireOpen() const;
  bool IsIdle() const { return free_.size() == state_->frames.size(); }
  bool HasRoom() const { return !free_.empty() && dying_ == 0; }
  bool IsAlone() const { return free_.size() + 1 == state_->frames.size(); }
  bool AwaitTurn(Lock* lock, TimeLimit room, const Request& request);
  void Admit(const RequestPtr& request, bool listed);
  std::shared_ptr<Ticket> Next() const;
  void CallNext();
  void Complete(Request* request, std::optional<std::string> failure);
  void Abort(Request* request, const std::string& failure);
  bool ExpireIfLate(Request* request);
  int64_t NextListed();
  TimeLimit EarliestDeadline() const;
  std::string Told(const StepError& error) const;

  const Plan& plan_;
  const Program& program_;
  ExecutorState* state_;
  CallerSpin spin_;
  const std::function<void(int)> restart_;

  mutable std::mutex mutex_;
  std::vector<Frame*> free_;
  std::deque<std::shared_ptr<Ticket>> tickets_;
  std::unordered_map<int64_t, RequestPtr> requests_;
  std::deque<int64_t> done_;            //!< requests to be told of
  std::condition_variable done_changed_;
  uint64_t deadlines_seen_{0};          //!< counts deadlines that NextDone has to look at
  int64_t last_id_{0};
  int dying_{0};                        //!< workers between FailAll and Bury
  std::condition_variable buried_;
  std::vector<int> dead_;               //!< workers whose thread has ended
  Record last_record_;
  StepLog log_;
  uint64_t record_only_{0};
  bool closed_{false};
  bool retired_{false};                 //!< another plan's executor takes what comes
  std::condition_variable idle_;        //!< no request is in flight, and it is retired
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_REQUEST_DESK_H_
