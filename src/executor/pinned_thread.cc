#include "executor/pinned_thread.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <thread>

namespace tvm_hetero {
namespace {

// Of the time that has passed, what a thread that has its core gets at the least. The kernel counts
// to the nanosecond; interrupts take a few per cent.
constexpr double kShareOfWhoRuns = 0.25;

double SecondsOf(clockid_t clock) {
  timespec now{};
  if (clock_gettime(clock, &now) != 0) return -1.0;
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

#ifdef __linux__
bool MoveThread(int number, int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  return sched_setaffinity(number, sizeof(set), &set) == 0;
}
#else
bool MoveThread(int, int) { return false; }
#endif

}  // namespace

void PinnedThread::Settle(int core) {
#ifdef __linux__
  clockid_t clock;
  if (core < 0 || core >= CPU_SETSIZE || pthread_getcpuclockid(pthread_self(), &clock) != 0) return;
  number_.store(gettid(), std::memory_order_relaxed);
  clock_.store(clock, std::memory_order_relaxed);
  core_.store(core, std::memory_order_relaxed);
  state_.store(kHome);
#else
  static_cast<void>(core);
#endif
}

void PinnedThread::Leave() {
  for (State state = state_.load(); state != kGone;) {
    if (state == kMoving) {
      std::this_thread::yield();
      state = state_.load();
    } else {
      state_.compare_exchange_weak(state, kGone);
    }
  }
  core_.store(-1, std::memory_order_relaxed);
}

void PinnedThread::ReturnHome() {
  while (state_.load() == kMoving) std::this_thread::yield();  // somebody is between two lines
  State state = kAway;
  if (!state_.compare_exchange_strong(state, kMoving)) return;
  MoveThread(number_.load(std::memory_order_relaxed), core());
  state_.store(kHome);
}

void PinnedThread::Exchange(PinnedThread* other) {
  State state = kHome;
  if (!state_.compare_exchange_strong(state, kMoving)) return;
  state = kHome;
  if (!other->state_.compare_exchange_strong(state, kMoving)) return state_.store(kHome);
  const int ours = core();
  const int theirs = other->core();
  if (MoveThread(other->number_.load(std::memory_order_relaxed), ours)) {
    other->core_.store(ours, std::memory_order_relaxed);
    core_.store(theirs, std::memory_order_relaxed);
  }
  other->state_.store(kHome);
  // The last thing: it may take a while until we have that core.
  MoveThread(number_.load(std::memory_order_relaxed), core());
  state_.store(kHome);
}

PinnedThread::Reading PinnedThread::Read() const {
  const bool is_there = state_.load() != kGone;
  return {SecondsOf(CLOCK_MONOTONIC), is_there ? SecondsOf(clock_.load(std::memory_order_relaxed)) : -1.0};
}

bool PinnedThread::LacksCore(const Reading& since) const {
  const Reading now = Read();
  if (now.on_core_s < 0.0 || since.on_core_s < 0.0) return false;
  const double share = (now.on_core_s - since.on_core_s) / (now.now_s - since.now_s);
  return share < kShareOfWhoRuns && IsRunnable();
}

/*! \brief Whether the kernel counts it among those who run or want to; a system call or three. */
bool PinnedThread::IsRunnable() const {
  const std::string path = "/proc/self/task/" + std::to_string(number_.load()) + "/stat";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char text[64];  // "number (name of 15 letters) state ..."
  const ssize_t length = read(file, text, sizeof(text));
  close(file);
  const std::string_view start(text, length < 0 ? 0 : static_cast<size_t>(length));
  const size_t name_end = start.rfind(") ");
  return name_end != std::string_view::npos && start.substr(name_end + 2, 1) == "R";
}

bool PinnedThread::PullTo(int core) {
  State state = kHome;
  if (core < 0 || core == this->core()) return false;
  if (!state_.compare_exchange_strong(state, kMoving)) return false;
  const bool is_moved = MoveThread(number_.load(std::memory_order_relaxed), core);
  state_.store(is_moved ? kAway : kHome);
  return is_moved;
}

}  // namespace tvm_hetero
