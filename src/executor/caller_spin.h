/*!
 * \file executor/caller_spin.h
 * \brief Whether a caller spins before he sleeps while his request runs.
 *
 * A request of a small model takes a few microseconds, and to wake a caller who sleeps takes as many
 * again, or ten times as many. So he spins, as workers do between batches, where that is short and
 * takes nothing from anybody: if the last request took no longer than he may spin, and he is on a
 * core on which no worker has steps to run. (A caller is not pinned. Where he shares a worker's core
 * he sleeps at once, and so does the worker when it has nothing to do.)
 *
 * That he is the only one is for the desk to see: several callers would take the cores from each
 * other.
 */
#ifndef TVM_HETERO_EXECUTOR_CALLER_SPIN_H_
#define TVM_HETERO_EXECUTOR_CALLER_SPIN_H_

#include <tvm_hetero/plan.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "executor/program.h"
#include "executor/request.h"
#include "support/parker.h"

namespace tvm_hetero {

class CallerSpin {
 public:
  CallerSpin(const Plan& plan, const Program& program);

  /*! \brief A request took so long, from its frame to its end. */
  void Note(double seconds) { last_is_short_.store(seconds < kLongest.count()); }
  /*! \brief Whether the calling thread may spin where it is. */
  bool IsAllowed() const;
  /*! \brief Spin until `ready()`, not for long, and not beyond a limit. */
  template <typename Ready>
  static void Until(TimeLimit limit, Ready ready) {
    const auto most = Clock::now() + std::chrono::duration_cast<Clock::duration>(kLongest);
    const auto end = limit ? std::min(*limit, most) : most;
    do {
      for (int i = 0; i < 16; ++i) {
        if (ready()) return;
        Relax();
      }
    } while (Clock::now() < end);
  }

 private:
  static constexpr std::chrono::duration<double> kLongest{50e-6};

  std::vector<int> taken_;  //!< cores of workers that have steps
  bool has_spare_{true};    //!< workers without cores of their own leave one to spare
  std::atomic<bool> last_is_short_{false};
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_CALLER_SPIN_H_
