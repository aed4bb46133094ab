/*!
 * \file executor/loop_board.h
 * \brief A parallel loop that one thread has put up and others may take pieces of.
 *
 * A compiled kernel hands a parallel loop over as a function of (piece, number of pieces). Who runs
 * the kernel and those who help it take the pieces one by one as they get to them, so that a thread
 * whose core is somebody else's for a while keeps the others waiting for one piece at most, not for
 * its share of the loop.
 *
 * One word says what there is to take: which loop (a count of all loops), how many pieces it has,
 * and the next one. A piece is taken by adding one to the word where it still is what was read. So
 * who comes late to a loop that has ended takes nothing, and what a loop is (its function and data)
 * is read only by who holds a piece of it, for whom the runner waits.
 *
 *   runner   writes the loop; puts the word; takes pieces; waits until as many are done as there are
 *   helper   waits for pieces in the word; takes them; counts each that is done
 */
#ifndef TVM_HETERO_EXECUTOR_LOOP_BOARD_H_
#define TVM_HETERO_EXECUTOR_LOOP_BOARD_H_

#include <tvm/ffi/error.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "executor/parallel_loops.h"
#include "support/parker.h"

namespace tvm_hetero {

namespace ffi = tvm::ffi;

class LoopBoard : public LoopRunner {
 public:
  LoopBoard() = default;
  LoopBoard(const LoopBoard&) = delete;
  LoopBoard& operator=(const LoopBoard&) = delete;

  /*! \brief Wake somebody for each loop. Before the first loop only; the parker outlives the board. */
  void AddHelper(Parker* helper) { helpers_.push_back(helper); }
  size_t helpers() const { return helpers_.size(); }

  /*! \brief For one thread at a time. */
  int Run(ParallelLoop loop, void* data, int pieces) noexcept override;

  /*! \brief No loop is near: those who spin for one may sleep. */
  void Rest() { at_work_.store(false, std::memory_order_relaxed); }
  /*! \brief Whether the next loop may be near. */
  bool at_work() const { return at_work_.load(std::memory_order_relaxed); }

  /*! \brief Whether there are pieces to take. */
  bool IsOpen() const;
  /*! \brief Take pieces of the loop that is there until none is left. */
  void Help() noexcept;

 private:
  void TakePieces(uint64_t word) noexcept;
  void RunPiece(int piece) noexcept;
  void KeepError() noexcept;

  std::vector<Parker*> helpers_;
  std::atomic<bool> at_work_{false};
  alignas(64) std::atomic<uint64_t> word_{0};  //!< loop, pieces, next piece (see loop_board.cc)
  std::atomic<int> done_{0};                   //!< pieces of the loop that have ended
  // Of the loop, written while nobody holds a piece.
  ParallelLoop loop_{nullptr};
  void* data_{nullptr};
  ParallelEnvironment environment_{nullptr, 0};
  std::mutex failing_;
  std::optional<ffi::Error> failed_;  //!< the first piece's that failed
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_LOOP_BOARD_H_
