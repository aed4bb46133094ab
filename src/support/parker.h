/*!
 * \file support/parker.h
 * \brief Waiting: spin for a while, then sleep; and waking without missing anybody.
 *
 * Each thread has its own Parker, and waits on it for one condition at a time. Whoever makes a
 * condition true stores it first and calls `Unpark` then, which costs one load while nobody sleeps.
 *
 * No wake-up is missed. Let x be the variable of the condition and p the flag `parked_`; both are
 * written and read with sequentially consistent operations only, so all of them stand in one total
 * order S that agrees with each thread's program order.
 *
 *   waiter  (holding the mutex):  W1: p = true     W2: read x -> not ready     W3: wait
 *   waker:                        K1: x = ready    K2: read p                  K3: if p: lock, notify
 *
 * The waiter sleeps only if W2 missed K1, that is W2 < K1 in S. Then W1 < W2 < K1 < K2, so K2 reads
 * true (only the waiter resets p, after it saw x ready). The waker therefore locks the mutex, which
 * the waiter has held since before W1 and gives up only inside the wait: the notification comes
 * when the waiter is asleep, and it wakes. If W2 did not miss K1 it does not sleep at all.
 */
#ifndef TVM_HETERO_SUPPORT_PARKER_H_
#define TVM_HETERO_SUPPORT_PARKER_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace tvm_hetero {

/*! \brief Tell the core that this is a busy loop (the other hyper-thread gets its share). */
inline void Relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

class alignas(64) Parker {
 public:
  using Duration = std::chrono::nanoseconds;

  /*! \brief Return true when `ready()` is, or false after `budget`. */
  template <typename Ready>
  static bool Spin(Duration budget, Ready ready) {
    if (ready()) return true;
    if (budget.count() == 0) return false;
    // The clock costs as much as some pauses: look at it once in a while.
    const auto end = std::chrono::steady_clock::now() + budget;
    do {
      for (int i = 0; i < 16; ++i) {
        Relax();
        if (ready()) return true;
      }
    } while (std::chrono::steady_clock::now() < end);
    return false;
  }

  /*!
   * \brief Return when `ready()` is true; spin for `spin` first, then sleep.
   * \param ready Reads its atomics sequentially consistently, changes nothing.
   */
  template <typename Ready>
  void Await(Duration spin, Ready ready) {
    if (Spin(spin, ready)) return;
    std::unique_lock<std::mutex> lock(mutex_);
    parked_.store(true);
    wake_.wait(lock, ready);
    parked_.store(false);
  }

  /*! \brief The same without spinning; false if `limit` passed before `ready()`. */
  template <typename Ready>
  bool AwaitFor(Duration limit, Ready ready) {
    if (ready()) return true;
    std::unique_lock<std::mutex> lock(mutex_);
    parked_.store(true);
    bool done = wake_.wait_for(lock, limit, ready);
    parked_.store(false);
    return done;
  }

  /*! \brief To be called after the condition was made true, by any thread. */
  void Unpark() {
    if (!parked_.load()) return;
    { std::lock_guard<std::mutex> lock(mutex_); }
    wake_.notify_one();
  }

 private:

  std::atomic<bool> parked_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_SUPPORT_PARKER_H_
