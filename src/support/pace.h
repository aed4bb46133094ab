/*!
 * \file support/pace.h
 * \brief Working beside others on their cores: a little at a time, with rests between.
 */
#ifndef TVM_HETERO_SUPPORT_PACE_H_
#define TVM_HETERO_SUPPORT_PACE_H_

#include <time.h>

#include <chrono>
#include <thread>

namespace tvm_hetero {

/*!
 * \brief Keeps a thread's work to a fifth of a core.
 *
 * A new plan is made ready on the cores on which the old one runs, and a request would be late by as
 * much as is done there in one piece. A lower priority would do as well, but who has lowered his
 * own may not raise it again.
 */
class Pace {
 public:
  explicit Pace(bool on) : on_(on), since_(on ? Used() : Duration{0}) {}

  /*! \brief Rest four times as long as the thread has had a core since it rested last. */
  void Rest() {
    if (!on_) return;
    std::this_thread::sleep_for(4 * (Used() - since_));
    since_ = Used();
  }

 private:
  using Duration = std::chrono::nanoseconds;

  static Duration Used() {
    timespec now{};
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) return Duration{0};
    return std::chrono::seconds{now.tv_sec} + Duration{now.tv_nsec};
  }

  bool on_;
  Duration since_;
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_SUPPORT_PACE_H_
