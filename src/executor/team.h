/*!
 * \file executor/team.h
 * \brief The threads that compute a worker's parallel loops with it, one on each of its cores.
 *
 * A compiled kernel hands a parallel loop over as a function of (piece, number of pieces). The
 * worker and the members of its team take the pieces one by one as they get to them, so that a
 * thread whose core is somebody else's for a while keeps the others waiting for one piece at most,
 * not for its share of the loop.
 *
 * One word says what there is to take: which loop (a count of all loops), how many pieces it has,
 * and the next one. A piece is taken by adding one to the word where it still is what was read. So
 * who comes late to a loop that has ended takes nothing, and what a loop is (its function and data)
 * is read only by who holds a piece of it, for whom the worker waits.
 *
 *   worker   writes the loop; puts the word; takes pieces; waits until as many are done as there are
 *   member   waits for another loop's number in the word; takes pieces; counts each that is done
 *
 * A member that waits spins while the worker is at work, since the next loop is mostly near, and
 * sleeps soon after. It never works on anything else.
 */
#ifndef TVM_HETERO_EXECUTOR_TEAM_H_
#define TVM_HETERO_EXECUTOR_TEAM_H_

#include <tvm/ffi/error.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "executor/parallel_loops.h"
#include "support/parker.h"

namespace tvm_hetero {

namespace ffi = tvm::ffi;

class Team final : public LoopRunner {
 public:
  /*!
   * \brief Start a member for each core but the first, which is the caller's; throws where a core is
   *        not there.
   * \param may_spin Whether a member that waits may keep its core busy.
   */
  Team(const std::string& name, const std::vector<int>& cores, bool may_spin);
  ~Team() override;
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /*! \brief For the thread that made the team, one loop at a time. */
  int Run(ParallelLoop loop, void* data, int pieces) noexcept override;

  /*! \brief Let members sleep soon: no loop is near. */
  void Rest() { at_work_.store(false, std::memory_order_relaxed); }

  size_t members() const { return members_.size(); }

 private:
  struct Member {
    Parker parker;
    std::thread thread;
  };

  void Start(Member* member, int core, const std::string& name);
  void End();
  void Serve(Member* member);
  void AwaitLoop(Member* member, uint32_t seen);
  void TakePieces(uint64_t word) noexcept;
  void RunPiece(int piece) noexcept;
  void KeepError() noexcept;

  const bool may_spin_;
  std::vector<std::unique_ptr<Member>> members_;
  std::atomic<bool> closing_{false};
  std::atomic<bool> at_work_{false};

  std::atomic<uint64_t> word_{0};  //!< loop, pieces, next piece (see team.cc)
  std::atomic<int> done_{0};       //!< pieces of the loop that have ended
  // Of the loop, written while nobody holds a piece.
  ParallelLoop loop_{nullptr};
  void* data_{nullptr};
  ParallelEnvironment environment_{nullptr, 0};
  std::mutex failing_;
  std::optional<ffi::Error> failed_;  //!< the first piece's that failed
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_TEAM_H_
