/*!
 * \file executor/state.h
 * \brief What the workers of one executor share: the batches in flight, and who is how far in each.
 *
 * A batch in flight is in a frame: its tensors (one slot each), and a mark for each step that has
 * ended. Batches are numbered from 1 in the order in which they were submitted. A worker's steps of a
 * batch are its part of it, and are taken in the plan's order. A worker holds a list of the parts that
 * may be its business. Of the next steps that are ready it takes the one of the earliest period,
 *
 *   period(batch, step) = batch + stage(step),     stages.h;     the older batch where two are equal.
 *
 * Help. Where workers are alike (WorkerPlan::alike), one that has nothing of its own to do takes the
 * next step of another's part, by the same rule, while that one is at a step. So a plan whose cores
 * are as quick as it says runs as it says; but what slows one core for a while, another program or
 * another guest of the host, costs what it takes from the cores together, and not the slowest one's
 * pace. Progress (progress.h) sees to it that a step is taken once, and the steps of a part one after
 * the other.
 *
 * Meetings. A step of a meeting (WorkerPlan::threads) is run by the first of its threads, whose
 * parallel loops are on the meeting's board (loop_board.h). Those of the others that have nothing of
 * their own to do take pieces: they come when they are through with what is before the step in their
 * own order, and the one that runs it does not wait for them. Behind it they go on when it has ended
 * (Instruction::waits_for), so that they are there. It is never run by who is alike.
 *
 * Who may touch what. A frame belongs to the desk (request_desk.h) until a part of its batch is begun
 * (Progress), and again from when the last part is done. In between a slot belongs to the step that fills it
 * until that step is marked as ended, and to its readers from then on; the last of them empties it.
 * Marking a step and seeing the mark are a release and an acquire (sequentially consistent in fact,
 * as Parker needs it), so a reader sees the whole tensor. A mark holds the number of the batch for
 * which the step has ended, so frames are used again without a reset for which all had to stop.
 *
 * No deadlock. A worker waits only when none of its own parts has a step that is ready and free, and
 * it holds nothing while it waits that another needs. Suppose that no step is running though a batch is in
 * flight. Of its steps that have not ended one stands behind no other (CheckPlan has refused plans
 * whose data and workers' orders make a circle): it is ready, so its worker is not waiting, which is
 * a contradiction. So while there are batches, steps end; a batch has finitely many, and only finitely
 * many steps are of an earlier period than one that is ready: each gets its turn, and all batches
 * end. A frame becomes free with each, so whoever waits for one gets it, in the order of tickets.
 *
 * Throughput. stages.h shows that with D = S + 2 frames the order of periods keeps the busiest worker
 * busy in the steady state, if every worker waits for its turn and steps always take the same. Here
 * nobody waits for a turn while another step of his is ready, so that a batch which is slow for once
 * delays the others only where they need it. That is not proven to reach the bound (greed can cost
 * something: R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 17(2),
 * 1969, doi:10.1137/0117039), and the order is what counts: with the oldest batch first instead, a
 * worker that feeds others late in the plan starves them. `python -m benchmarks.steady_state`
 * measures how near whole plans come.
 *
 * Coming in. A part's progress says which batch its frame is for. A worker that sees a new number in
 * `announced` looks at all frames, so it misses no batch in flight, whatever others have done of its
 * part meanwhile. What it notes is a number and a frame: where the progress tells another number, or
 * that the part is done, others have done it.
 */
#ifndef TVM_HETERO_EXECUTOR_STATE_H_
#define TVM_HETERO_EXECUTOR_STATE_H_

#include <tvm/ffi/any.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "executor/departure.h"
#include "executor/loop_board.h"
#include "executor/program.h"
#include "executor/progress.h"
#include "executor/request.h"
#include "memory/buffer_pool.h"
#include "support/parker.h"

namespace tvm_hetero {

namespace ffi = tvm::ffi;

/*! \brief A tensor's place. Its own cache line: neighbours belong to other workers. */
struct alignas(64) Slot {
  ffi::Any tensor;
  std::atomic<int> readers_left{0};
};

/*! \brief The number of the last batch in this frame for which a step has ended. */
struct alignas(64) Mark {
  std::atomic<uint64_t> batch{0};
};

/*! \brief When a step ran, in seconds since ExecutorState::epoch; NaN where it was skipped. */
struct Span {
  static Span Skipped();

  double start;
  double end;
  double waited;  //!< its worker had nothing else to do for so long right before it
  int worker;     //!< who ran it; -1 where it was skipped
  double on_core;   //!< how long the thread that ran it had a core; NaN unless somebody watches
  double in_queue;  //!< how long it wanted one and had none; likewise
};

/*! \brief What was measured of one batch. */
struct Record {
  std::vector<Span> spans;            //!< one a step
  std::vector<double> kernel_times;   //!< one a call of kernels, s
  bool has_kernel_times{false};
};

/*! \brief A batch in flight. */
struct Frame {
  Frame(const Plan& plan, const Program& program);

  std::vector<Slot> slots;
  std::vector<Mark> marks;
  std::vector<Progress> parts;  //!< by worker
  Record record;
  uint64_t batch{0};
  TimeLimit deadline;
  std::shared_ptr<Request> request;              //!< null while the frame is free
  std::optional<StepError> error;                //!< with the desk's lock
  alignas(64) std::atomic<bool> skip{false};     //!< what is left of this batch is not to be run
  alignas(64) std::atomic<int> parts_left{0};    //!< parts that are not done
};

/*! \brief Whether a worker is at a step. */
struct alignas(64) Busy {
  std::atomic<bool> now{false};
};

/*! \brief What all workers of an executor, its desk and its callers share. */
struct ExecutorState {
  ExecutorState(const Plan& plan, const Program& program);

  void UnparkWorkers() {
    for (Parker& parker : parkers) parker.Unpark();
  }
  double Now() const { return std::chrono::duration<double>(Clock::now() - epoch).count(); }

  std::vector<ffi::Any> constants;  //!< by slot; the same for all batches
  std::deque<Frame> frames;
  std::deque<Parker> parkers;       //!< one a worker
  std::vector<Busy> busy;           //!< one a worker
  std::vector<std::unique_ptr<LoopBoard>> boards;  //!< by worker; null where it is no meeting
  std::vector<std::unique_ptr<BufferPool>> pools;  //!< by slot; null where no pool is needed
  const Clock::time_point epoch;
  alignas(64) std::atomic<uint64_t> announced{0};  //!< batches up to this one have begun
  std::atomic<int> caller_core{-1};                //!< on which the last request was submitted
  std::atomic<bool> closing{false};                //!< no more batches come
  std::atomic<bool> check_numerics{false};
  std::atomic<bool> profile_kernels{false};
  std::atomic<bool> watches_steps{false};          //!< spans tell what threads had of their cores
  std::atomic<bool> retired{false};                //!< no more batches come; workers leave when through
  const std::shared_ptr<Departure> departure;      //!< who of them has left
  std::deque<PinnedThread>& threads;               //!< one a worker, of `departure`
  std::atomic<int> buffers_wanted{1};              //!< of each slot that kernels fill
  std::atomic<int64_t> allocated{0};               //!< tensors, those that were reserved not counted
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_STATE_H_
