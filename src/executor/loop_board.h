/*!
 * \file executor/loop_board.h
 * \brief A parallel loop that one thread has put up and others may take pieces of.
 *
 * A compiled kernel hands a parallel loop over as a function of (piece, number of pieces). Of n
 * threads, the one that runs the kernel and those who help, each is dealt a share of the pieces,
 *
 *   dealt(i) = [ pieces i / n, pieces (i + 1) / n )
 *
 * takes its own one by one from the front, and then others' from the back. So a thread comes to the
 * same part of each loop, whose data the loop before has left in its core's cache; and one whose core
 * is somebody else's for a while keeps the others waiting for one piece at most, not for its share.
 * (E. P. Markatos, T. J. LeBlanc: "Using processor affinity in loop scheduling on shared-memory
 * multiprocessors", IEEE TPDS 5(4), 1994, doi:10.1109/71.273046.)
 *
 * A word for each thread says what there is to take of its share: which loop (a count of all loops),
 * the end of the share and its next piece. A piece is taken by changing the word where it still is what
 * was read. So who comes late to a loop that has ended takes nothing, and what a loop is (its function
 * and data) is read only by who holds a piece of it, for whom the runner waits.
 *
 *   runner   writes the loop; puts the words; takes pieces; waits until as many are done as there are
 *   helper   waits for pieces in a word; takes them; counts each that is done
 *
 * A piece is in the wrong hands while its thread waits for a core that another program has. The runner
 * gives it its own then, until the piece has ended (pinned_thread.h).
 */
#ifndef TVM_HETERO_EXECUTOR_LOOP_BOARD_H_
#define TVM_HETERO_EXECUTOR_LOOP_BOARD_H_

#include <tvm/ffi/error.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "executor/core_watch.h"
#include "executor/parallel_loops.h"
#include "executor/pinned_thread.h"
#include "support/parker.h"

namespace tvm_hetero {

namespace ffi = tvm::ffi;

class LoopBoard : public LoopRunner {
 public:
  LoopBoard() = default;
  LoopBoard(const LoopBoard&) = delete;
  LoopBoard& operator=(const LoopBoard&) = delete;

  /*!
   * \brief Add a thread to wake for each loop. Before the first loop only; what is pointed to
   *        outlives the board.
   * \return Its number, from 1 on; the runner is number 0.
   */
  size_t AddHelper(Parker* helper, PinnedThread* thread = nullptr);

  /*! \brief For one thread at a time. */
  int Run(ParallelLoop loop, void* data, int pieces) noexcept override;

  /*! \brief No loop is near: those who spin for one may sleep. */
  void Rest() { at_work_.store(false, std::memory_order_relaxed); }
  /*! \brief Whether the next loop may be near. */
  bool at_work() const { return at_work_.load(std::memory_order_relaxed); }

  /*! \brief Whether there are pieces to take. */
  bool IsOpen() const;
  /*! \brief Take pieces of the loop that is there until none is left; as thread `self`. */
  void Help(size_t self) noexcept;

 private:
  /*! \brief What is left of a thread's share: loop, end, next piece (see loop_board.cc). */
  struct alignas(64) Share {
    std::atomic<uint64_t> word{0};
  };
  /*! \brief A thread of the board. */
  struct alignas(64) Seat {
    Parker* parker{nullptr};              //!< null for the runner
    PinnedThread* thread{nullptr};        //!< null where it cannot be moved
    std::atomic<bool> is_helping{false};  //!< it may hold a piece
  };

  void TakePieces(size_t self) noexcept;
  int TakeFirst(size_t of) noexcept;
  int TakeLast(size_t of) noexcept;
  void RunPiece(int piece) noexcept;
  void KeepError() noexcept;
  bool SpinUntilDone(int pieces) const noexcept;
  void AwaitPieces(int pieces) noexcept;
  bool FreePieces(int pieces) noexcept;
  void LetRun(const Seat& seat, int pieces) const noexcept;

  std::deque<Share> shares_{1};  //!< of the runner, then of each helper
  std::deque<Seat> seats_{1};    //!< likewise
  std::vector<LackWatch> watches_{1};  //!< likewise, of the runner as it waits
  uint32_t loops_{0};
  std::atomic<bool> at_work_{false};
  alignas(64) std::atomic<int> done_{0};  //!< pieces of the loop that have ended
  // Of the loop, written while nobody holds a piece.
  ParallelLoop loop_{nullptr};
  void* data_{nullptr};
  ParallelEnvironment environment_{nullptr, 0};
  std::mutex failing_;
  std::optional<ffi::Error> failed_;  //!< the first piece's that failed
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_LOOP_BOARD_H_
