/*!
 * \file board.h
 * \brief What the workers of one executor share: the slots, and who is how far.
 *
 * Who may touch what. Between runs (the latch `unfinished` is 0) everything belongs to the thread
 * that drives the executor. Within a run a slot belongs to the step that fills it until that step
 * is marked as ended, and to its readers from then on; the last of them empties it. Marking a step
 * and seeing the mark are a release and an acquire (sequentially consistent in fact, as Parker
 * needs it), so a reader sees the whole tensor.
 *
 * A stream is one long run of many batches, each in a frame of its own. A frame belongs to the
 * driver until it announces the batch, and again from when the batch is done. Batches and runs are
 * numbered in one sequence, so that a mark says without doubt for which of them a step ended.
 */
#ifndef TVM_HETERO_BOARD_H_
#define TVM_HETERO_BOARD_H_

#include <tvm/ffi/any.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

#include "parker.h"
#include "program.h"

namespace tvm_hetero {

namespace ffi = tvm::ffi;
using Clock = std::chrono::steady_clock;

/*! \brief A tensor's place. Its own cache line: neighbours belong to other workers. */
struct alignas(64) Slot {
  ffi::Any tensor;
  std::atomic<int> readers_left{0};
};

/*! \brief The tensors of one batch. */
struct Frame {
  explicit Frame(size_t count) : slots(count) {}

  std::vector<Slot> slots;
  // In a stream only:
  bool empty{true};                                 //!< no step is to run for this batch
  double end{0.0};                                  //!< when it was through, s since the start
  alignas(64) std::atomic<int> workers_left{0};     //!< workers that are not through with it
  alignas(64) std::atomic<uint64_t> done{0};        //!< the number of the batch that is through
};

/*! \brief The number of the last run, or of the last batch of a stream, for which a step ended. */
struct alignas(64) Mark {
  std::atomic<uint64_t> run{0};
};

struct Board {
  Board(const Program& program, size_t steps)
      : home(program.slots.size()), marks(steps), parkers(program.run.size()) {}

  void UnparkWorkers() {
    for (Parker& parker : parkers) parker.Unpark();
  }

  /*! \brief The frame of a batch of the stream. */
  Frame& FrameOf(uint64_t batch) { return frames[(batch - first_batch) % frames.size()]; }

  Frame home;                                   //!< of run(); constants are nowhere else
  std::deque<Frame> frames;                     //!< of streams; made when the first one begins
  std::vector<Mark> marks;                      //!< one a step
  std::vector<Parker> parkers;                  //!< one a worker
  alignas(64) std::atomic<uint64_t> run{0};     //!< the number of the run; a new one starts it
  alignas(64) std::atomic<bool> failed{false};  //!< the rest of this run is to be skipped
  std::atomic<bool> closing{false};
  alignas(64) std::atomic<int> unfinished{0};   //!< workers that have not ended this run
  Parker driver;                                //!< where the thread in run() sleeps
  Clock::time_point start;                      //!< of this run
  bool streaming{false};                        //!< whether this run is a stream
  uint64_t first_batch{0};                      //!< of the stream: also the number of its run
  alignas(64) std::atomic<uint64_t> announced{0};  //!< the batches before this one have begun
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_BOARD_H_
