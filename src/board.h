/*!
 * \file board.h
 * \brief What the workers of one executor share: the batches in flight, and who is how far in each.
 *
 * A batch in flight is in a frame: its tensors (one slot each), and a mark for each step that has
 * ended. Batches are numbered from 1 in the order in which they were submitted. A worker holds a
 * list of the batches that it is not through with, and goes through the steps of each in the plan's
 * order. What it does next is the next step of the OLDEST batch whose next step is ready.
 *
 * Who may touch what. A frame belongs to the desk (request_desk.h) until its batch is announced, and
 * again from when the last worker has left it. In between a slot belongs to the step that fills it
 * until that step is marked as ended, and to its readers from then on; the last of them empties it.
 * Marking a step and seeing the mark are a release and an acquire (sequentially consistent in fact,
 * as Parker needs it), so a reader sees the whole tensor. A mark holds the number of the batch for
 * which the step has ended, so frames are used again without a reset for which all had to stop.
 *
 * No deadlock. A worker waits only when none of its batches has a step that is ready, and it holds
 * nothing while it waits that another needs. Take the oldest batch in flight, and of its steps that
 * have not ended one that stands behind no other (there is one: CheckPlan has refused plans whose
 * data and workers' orders make a circle). All that it needs is there, so it is ready; its worker
 * comes to it as soon as the step that it is in has ended, since no older batch is there to be taken
 * first. So the oldest batch ends, and the next one is the oldest: all end. A frame becomes free with
 * each, so whoever waits for one gets it, in the order of tickets.
 *
 * Throughput. stages.h shows that with D = S + 2 frames an order exists in which the busiest worker
 * never idles in the steady state, whatever the steps take, as long as they always take the same.
 * Taking the oldest that is ready does without that 'always': nobody waits for a turn while he has
 * something to do, so a batch that is slow for once delays those behind it only where they need the
 * same worker. It is no worse on average in any plan that we have seen (re-entrant lines that serve
 * the oldest first are stable at every load below 1: S. H. Lu and P. R. Kumar, "Distributed
 * scheduling based on due dates and buffer priorities", IEEE TAC 36(12), 1991, doi:10.1109/9.106156),
 * but that is a theorem for lines with enough in flight, not a proof for D frames.
 *
 * The order of announcing. `ring[b mod D]` is batch b's frame. It is overwritten when batch b + D is
 * announced; at most D - 1 batches were in flight then, so one of b ... b + D - 1 had ended, and each
 * worker, which accepts in order, had read the ring at b before it left that one.
 */
#ifndef TVM_HETERO_BOARD_H_
#define TVM_HETERO_BOARD_H_

#include <tvm/ffi/any.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "parker.h"
#include "program.h"
#include "request.h"

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

/*! \brief When a step ran, in seconds since Board::epoch; NaN where it was skipped. */
struct Span {
  double start;
  double end;
  double waited;  //!< its worker had nothing else to do for so long right before it
};

/*! \brief What was measured of one batch. */
struct Record {
  std::vector<Span> spans;            //!< one a step
  std::vector<double> kernel_times;   //!< one a call of kernels, s
  bool has_kernel_times{false};
};

/*! \brief A batch in flight. */
struct Frame {
  Frame(size_t slot_count, size_t step_count, size_t call_count);

  std::vector<Slot> slots;
  std::vector<Mark> marks;
  Record record;
  uint64_t batch{0};
  TimeLimit deadline;
  std::shared_ptr<Request> request;              //!< null while the frame is free
  std::optional<StepError> error;                //!< with the desk's lock
  alignas(64) std::atomic<bool> skip{false};     //!< what is left of this batch is not to be run
  alignas(64) std::atomic<int> workers_left{0};  //!< workers that are not through with it
};

struct Board {
  Board(const Plan& plan, const Program& program);

  void UnparkWorkers() {
    for (Parker& parker : parkers) parker.Unpark();
  }
  Frame& FrameOf(uint64_t batch) { return *ring[batch % ring.size()]; }
  double Now() const { return std::chrono::duration<double>(Clock::now() - epoch).count(); }

  std::vector<ffi::Any> constants;  //!< by slot; the same for all batches
  std::deque<Frame> frames;
  std::vector<Frame*> ring;         //!< the frames of the batches announced last
  std::vector<Parker> parkers;      //!< one a worker
  const Clock::time_point epoch;
  alignas(64) std::atomic<uint64_t> announced{0};  //!< batches up to this one have begun
  std::atomic<bool> closing{false};                //!< no more batches come
  std::atomic<bool> check_numerics{false};
  std::atomic<bool> profile_kernels{false};
  std::atomic<int> buffers_wanted{1};              //!< of each slot that kernels fill
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_BOARD_H_
