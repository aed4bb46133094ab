#include "executor/pinned_thread.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
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
  if (state_.load() != kGone) return;
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
}

void PinnedThread::ReturnHome() {
  while (state_.load() == kMoving) std::this_thread::yield();  // somebody is between two lines
  State state = kAway;
  if (state_.compare_exchange_strong(state, kHome)) MoveHome();
}

void PinnedThread::SendHome() {
  State state = kAway;
  if (!state_.compare_exchange_strong(state, kMoving)) return;
  MoveThread(number_.load(std::memory_order_relaxed), core());
  state_.store(kHome);
}

/*! \brief To its core, which may be another one when it gets there; by the thread itself. */
void PinnedThread::MoveHome() const {
  for (int to = -1; to != core();) {
    to = core();
    if (!MoveThread(number_.load(std::memory_order_relaxed), to)) return;
  }
}

/*! \brief Whether it may run on its core and no other: who runs the machine may have moved it. */
bool PinnedThread::IsPinned() const {
#ifdef __linux__
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(number_.load(std::memory_order_relaxed), sizeof(set), &set) != 0) return false;
  return CPU_COUNT(&set) == 1 && CPU_ISSET(core(), &set);
#else
  return false;
#endif
}

void PinnedThread::Exchange(PinnedThread* other) {
  State state = kHome;
  if (!state_.compare_exchange_strong(state, kMoving)) return;
  state = kHome;
  if (!other->state_.compare_exchange_strong(state, kMoving)) return state_.store(kHome);
  const int ours = core();
  const int theirs = other->core();
  const bool is_moved = IsPinned() && other->IsPinned() &&
                        MoveThread(other->number_.load(std::memory_order_relaxed), ours);
  if (is_moved) {
    other->core_.store(ours, std::memory_order_relaxed);
    core_.store(theirs, std::memory_order_relaxed);
  }
  other->state_.store(kHome);
  state_.store(kHome);
  if (is_moved) MoveHome();  // when that returns we have that core, which may take a while
}

PinnedThread::Reading PinnedThread::Read() const noexcept {
  const bool is_there = state_.load() != kGone;
  return {SecondsOf(CLOCK_MONOTONIC), is_there ? SecondsOf(clock_.load(std::memory_order_relaxed)) : -1.0};
}

bool PinnedThread::IsOffCore(const Reading& since, const Reading& now) noexcept {
  if (now.on_core_s < 0.0 || since.on_core_s < 0.0) return false;
  return now.on_core_s - since.on_core_s < kShareOfWhoRuns * (now.now_s - since.now_s);
}

bool PinnedThread::IsRunnable() const noexcept {
  char path[48];
  std::snprintf(path, sizeof(path), "/proc/self/task/%d/stat", number_.load());
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char text[64];  // "number (name of 15 letters) state ..."
  const ssize_t length = read(file, text, sizeof(text));
  close(file);
  const std::string_view start(text, length < 0 ? 0 : static_cast<size_t>(length));
  const size_t name_end = start.rfind(") ");
  return name_end != std::string_view::npos && name_end + 2 < start.size() &&
         start[name_end + 2] == 'R';
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
