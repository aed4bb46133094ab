/*!
 * \file executor/core_watch.h
 * \brief Who waits for another thread sees to it that this one has a core: its own, if need be.
 *
 * A thread that has something to do and no core keeps all waiting who spin for it on cores of theirs,
 * for a slice of the kernel's (3 ms and more). They exchange cores then (pinned_thread.h). Who has
 * waited comes late now, instead of who works; it gets its share of the disturbed core all the same.
 */
#ifndef TVM_HETERO_EXECUTOR_CORE_WATCH_H_
#define TVM_HETERO_EXECUTOR_CORE_WATCH_H_

#include <chrono>

#include "executor/pinned_thread.h"

namespace tvm_hetero {

/*! \brief Sees whether a thread has something to do and no core, in two periods that follow each other. */
class LackWatch {
 public:
  /*! \brief A period: the time in which readings of one who runs differ surely. */
  static constexpr std::chrono::microseconds kPatience{30};

  /*! \brief A new wait begins: what was read before tells nothing. */
  void Reset() { *this = {}; }
  /*!
   * \brief Whether it has lacked a core for two periods by now. Once may be one who has just been
   *        woken; who sleeps is asked again a millisecond later only.
   */
  bool Lacks(const PinnedThread& thread) noexcept;

 private:
  PinnedThread::Reading since_;
  bool lacked_{false};
  double not_before_s_{0.0};
};

class CoreWatch {
 public:
  /*! \brief How often who waits asleep looks. */
  static constexpr std::chrono::milliseconds kAsleep{1};

  /*! \brief Both outlive the watch. */
  CoreWatch(PinnedThread* self, PinnedThread* other) : self_(self), other_(other) {}

  void Reset() { lack_.Reset(); }
  /*!
   * \brief By `self`, once a turn while it spins.
   * \param has_work Whether the other one has something to do.
   */
  template <typename HasWork>
  void Look(HasWork has_work) {
    if (++turns_ % kTurnsBetween == 0) LookNow(has_work());
  }
  /*! \brief The same for who looks seldom. */
  void LookNow(bool has_work) {
    if (!has_work) return Reset();
    if (lack_.Lacks(*other_)) self_->Exchange(other_);
  }

 private:
  static constexpr unsigned kTurnsBetween = 64;

  PinnedThread* self_;
  PinnedThread* other_;
  unsigned turns_{0};
  LackWatch lack_;
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_CORE_WATCH_H_
