/*!
 * \file executor/team.h
 * \brief Threads of a worker's own that compute its parallel loops with it, one on each further core.
 *
 * Where a device of several cores shares them with no other. A member does nothing but take pieces
 * (loop_board.h). While it waits it spins as long as the worker is at work, since the next loop is
 * mostly near, and sleeps soon after.
 */
#ifndef TVM_HETERO_EXECUTOR_TEAM_H_
#define TVM_HETERO_EXECUTOR_TEAM_H_

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "executor/loop_board.h"

namespace tvm_hetero {

class Team final : public LoopBoard {
 public:
  /*!
   * \brief Start a member for each core but the first, which is the caller's; throws where a core is
   *        not there.
   * \param may_spin Whether a member that waits may keep its core busy.
   */
  Team(const std::string& name, const std::vector<int>& cores, bool may_spin);
  /*!
   * \brief Members that spin see to it that the caller has a core, as long as it is at work.
   * \param runner,is_at_work The caller, and whether it is; they outlive the team.
   */
  Team(const std::string& name, const std::vector<int>& cores, bool may_spin, PinnedThread* runner,
       const std::atomic<bool>* is_at_work);
  ~Team() override;

 private:
  struct Member {
    Parker parker;
    PinnedThread pinned;
    std::thread thread;
    size_t number{0};  //!< among the threads of the board
  };

  void Start(Member* member, int core, const std::string& name);
  void End();
  void Serve(Member* member);
  void AwaitLoop(Member* member);
  template <typename HasCome>
  bool AwaitWhileAtWork(Member* member, HasCome has_come);

  const bool may_spin_;
  PinnedThread* const runner_{nullptr};  //!< null where it is not to be moved
  const std::atomic<bool>* const runner_works_{nullptr};
  std::vector<std::unique_ptr<Member>> members_;
  std::atomic<bool> closing_{false};
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_TEAM_H_
