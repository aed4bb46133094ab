/*!
 * \file board.h
 * \brief What the workers of one executor share: the slots, and who is how far.
 *
 * Who may touch what. Between runs (the latch `unfinished` is 0) everything belongs to the thread
 * that drives the executor. Within a run a slot belongs to the step that fills it until that step
 * is marked as ended, and to its readers from then on; the last of them empties it. Marking a step
 * and seeing the mark are a release and an acquire (sequentially consistent in fact, as Parker
 * needs it), so a reader sees the whole tensor.
 */
#ifndef TVM_HETERO_BOARD_H_
#define TVM_HETERO_BOARD_H_

#include <tvm/ffi/any.h>

#include <atomic>
#include <chrono>
#include <cstdint>
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

/*! \brief The number of the last run in which a step ended. */
struct alignas(64) Mark {
  std::atomic<uint64_t> run{0};
};

struct Board {
  Board(const Program& program, size_t steps)
      : slots(program.slots.size()), marks(steps), parkers(program.workers.size()) {}

  void UnparkWorkers() {
    for (Parker& parker : parkers) parker.Unpark();
  }

  std::vector<Slot> slots;
  std::vector<Mark> marks;                      //!< one a step
  std::vector<Parker> parkers;                  //!< one a worker
  alignas(64) std::atomic<uint64_t> run{0};     //!< the number of the run; a new one starts it
  alignas(64) std::atomic<bool> failed{false};  //!< the rest of this run is to be skipped
  std::atomic<bool> closing{false};
  alignas(64) std::atomic<int> unfinished{0};   //!< workers that have not ended this run
  Parker driver;                                //!< where the thread in run() sleeps
  Clock::time_point start;                      //!< of this run
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_BOARD_H_
