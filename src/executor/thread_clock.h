/*!
 * \file executor/thread_clock.h
 * \brief What the kernel says of a thread: how long it had a core, and how long it wanted one.
 *
 * A step that takes longer than it did may be slow for one of three reasons, and these two times
 * tell which: another program has the core meanwhile (the time in the run queue grows), another one
 * uses up the cache or the memory's bandwidth (the time on the core grows), or neither.
 *
 * The time on a core is exact at any moment. The time in the run queue is the second number of
 * /proc/thread-self/schedstat (Documentation/scheduler/sched-stats.rst of Linux); it grows when the
 * thread gets its core back, so it is right for whoever runs. A kernel without it tells nothing.
 */
#ifndef TVM_HETERO_EXECUTOR_THREAD_CLOCK_H_
#define TVM_HETERO_EXECUTOR_THREAD_CLOCK_H_

namespace tvm_hetero {

/*! \brief Seconds since the thread's start; NaN where the kernel does not tell. */
struct ThreadTimes {
  double on_core;
  double in_queue;
};

/*! \brief Reads the times of the thread that has made it. */
class ThreadClock {
 public:
  ThreadClock();
  ~ThreadClock();
  ThreadClock(const ThreadClock&) = delete;
  ThreadClock& operator=(const ThreadClock&) = delete;

  ThreadTimes Read() const;

 private:
  double ReadQueue() const;

  int file_;  //!< the kernel's statistics; -1 where there are none
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_THREAD_CLOCK_H_
