/*!
 * \file executor/pinned_thread.h
 * \brief A thread that belongs to a core, and may be pulled over to another one while its own is
 *        somebody else's.
 *
 * A thread that is pinned keeps its data near, but it waits in its core's queue while another program
 * has the core: for a whole slice, some milliseconds. If it holds a piece of a parallel loop then, all
 * others wait as long. Whoever has nothing else to do but wait for it can give it the core that it
 * spins on:
 *
 *   who waits     IsOffCore, IsRunnable: its time on a core does not grow, and it does not sleep
 *                 PullTo: it may run here
 *   who is pulled goes on where it was, here; later it goes home, or is sent there
 *
 * Changes are by compare-and-swap, and while a thread is `moving` one is alone with it:
 *
 *   home --PullTo--> moving --> away --GoHome--> home,     home --Exchange--> moving --> home,
 *   home or away --Leave--> gone
 *
 * One that is `gone` is never touched: its number may be another thread's by then.
 */
#ifndef TVM_HETERO_EXECUTOR_PINNED_THREAD_H_
#define TVM_HETERO_EXECUTOR_PINNED_THREAD_H_

#include <time.h>

#include <atomic>

namespace tvm_hetero {

class PinnedThread {
 public:
  /*! \brief The time that a thread has had on a core, and when that was read. */
  struct Reading {
    double now_s{0.0};
    double on_core_s{0.0};
  };

  PinnedThread() = default;
  PinnedThread(const PinnedThread&) = delete;
  PinnedThread& operator=(const PinnedThread&) = delete;

  // By the thread itself.
  /*! \brief The calling thread is pinned to this core, and is this one until it leaves; once. */
  void Settle(int core);
  /*! \brief It ends, or is no more to be moved. */
  void Leave();
  /*! \brief Back to its own core, if it is elsewhere. */
  void GoHome() {
    if (state_.load() != kHome) ReturnHome();
  }
  /*!
   * \brief Give another thread this one's core, for good, and take its; if both are at home.
   *
   * Both are at home when this begins to wait for the other core: who needs this thread may pull it.
   */
  void Exchange(PinnedThread* other);

  // By any thread.
  bool IsAway() const { return state_.load(std::memory_order_relaxed) == kAway; }
  /*! \brief The core that it belongs to, or did when it left; -1 before it has settled. */
  int core() const { return core_.load(std::memory_order_relaxed); }
  Reading Read() const noexcept;
  /*! \brief Whether it sleeps or waits for a core, and has next to nothing of one, between readings. */
  static bool IsOffCore(const Reading& since, const Reading& now) noexcept;
  /*! \brief Whether the kernel counts it among those who run or want to; some system calls. */
  bool IsRunnable() const noexcept;
  /*! \brief Let it run on another core until it goes home; false where that cannot be. */
  bool PullTo(int core);
  /*! \brief Undo that. */
  void SendHome();

 private:
  enum State { kGone, kHome, kMoving, kAway };

  void ReturnHome();
  void MoveHome() const;
  bool IsPinned() const;

  std::atomic<State> state_{kGone};
  std::atomic<int> core_{-1};
  std::atomic<int> number_{0};  //!< as the kernel counts threads
  std::atomic<clockid_t> clock_{0};
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_PINNED_THREAD_H_
