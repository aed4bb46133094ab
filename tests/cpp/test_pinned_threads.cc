// Threads that have lost their core to another program: those who wait see it, and give them theirs.
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "executor/core_watch.h"
#include "executor/parallel_loops.h"
#include "executor/pinned_thread.h"
#include "executor/team.h"
#include "executor/thread_setup.h"
#include "harness.h"
#include "support/parker.h"

namespace tvm_hetero::tests {
namespace {

constexpr std::chrono::seconds kLong{20};

/*! \brief Whether it comes true before long. */
template <typename Ready>
bool ComesTrue(Ready ready) {
  const auto end = std::chrono::steady_clock::now() + kLong;
  while (!ready()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

/*!
 * \brief The same for who spins, as a worker that waits does.
 *
 * Who yields on a busy machine looks so seldom that the other one has had its share of a core.
 */
template <typename Ready>
bool ComesTrueToWhoSpins(Ready ready) {
  const auto end = std::chrono::steady_clock::now() + kLong;
  while (!ready()) {
    if (std::chrono::steady_clock::now() > end) return false;
    Relax();
  }
  return true;
}

/*! \brief Another program on a core, as long as it lives. */
class Competitor {
 public:
  explicit Competitor(int core) {
    thread_ = std::thread([this, core] {
      PinThread({core});
      while (!over_.load(std::memory_order_relaxed)) Relax();
    });
  }
  ~Competitor() {
    over_.store(true);
    thread_.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

/*! \brief A pinned thread that runs, or sleeps, until it is told to end. */
class Subject {
 public:
  Subject(int core, bool is_busy) {
    std::promise<void> ready;
    thread_ = std::thread([&, core, is_busy] {
      PinThread({core});
      pinned.Settle(core);
      ready.set_value();
      while (!over_.load()) {
        if (goes_home.load()) pinned.GoHome();
        seen.store(CurrentCore());
        if (is_busy) {
          Relax();
        } else {
          // Once only: who wakes on a busy core waits for it.
          parker_.Await(Parker::Duration{0}, [this] { return over_.load(); });
        }
      }
      pinned.Leave();
    });
    ready.get_future().get();
  }
  ~Subject() { End(); }
  void End() {
    over_.store(true);
    parker_.Unpark();
    if (thread_.joinable()) thread_.join();
  }

  PinnedThread pinned;
  std::atomic<int> seen{-1};  //!< the core that it was on last
  std::atomic<bool> goes_home{false};

 private:
  std::atomic<bool> over_{false};
  Parker parker_;
  std::thread thread_;
};

/*! \brief Two cores of this process; the same one twice where it has no other. */
std::pair<int, int> TwoCores() {
  const std::vector<int> here = AllowedCores();
  return {here.front(), here.back()};
}

TEST(WhoIsPulledRunsThereUntilItGoesHome) {
  const auto [first, second] = TwoCores();
  if (first == second) return;
  Subject subject(first, true);
  CHECK(subject.pinned.PullTo(second));
  CHECK(subject.pinned.IsAway());
  CHECK(!subject.pinned.PullTo(second));  // it is nobody's to pull meanwhile
  CHECK(ComesTrue([&, second = second] { return subject.seen.load() == second; }));
  subject.goes_home.store(true);
  CHECK(ComesTrue([&, first = first] { return subject.seen.load() == first; }));
  CHECK(!subject.pinned.IsAway());
}

TEST(WhoHasEndedIsNotTouched) {
  const auto [first, second] = TwoCores();
  Subject subject(first, true);
  subject.End();
  CHECK(!subject.pinned.PullTo(second));
  CHECK(subject.pinned.core() == first);  // for who is started in its place
  const PinnedThread::Reading reading = subject.pinned.Read();
  CHECK(!PinnedThread::IsOffCore(reading, subject.pinned.Read()));
}

TEST(WhoWaitsForACoreLacksOneAndWhoSleepsDoesNot) {
  const auto [first, second] = TwoCores();
  LackWatch watch;
  Subject asleep(second, false);
  CHECK(ComesTrue([&] { return !asleep.pinned.IsRunnable(); }));
  for (int i = 0; i < 200; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    CHECK(!watch.Lacks(asleep.pinned));
  }
  Subject busy(second, true);
  Competitor competitor(second);
  watch.Reset();
  CHECK(ComesTrueToWhoSpins([&] { return watch.Lacks(busy.pinned); }));
}

TEST(WhoHasACoreExchangesItWithWhoHasNone) {
  const auto [first, second] = TwoCores();
  if (first == second) return;
  Subject busy(second, true);
  Competitor competitor(second);
  const int ours = first, theirs = second;
  std::thread waiter([&] {
    PinnedThread self;
    PinThread({ours});
    self.Settle(ours);
    CoreWatch watch(&self, &busy.pinned);
    CHECK(ComesTrueToWhoSpins([&] {
      watch.Look([] { return true; });
      return busy.pinned.core() == ours;
    }));
    CHECK(self.core() == theirs);
    self.Leave();
  });
  waiter.join();
  CHECK(ComesTrue([&] { return busy.seen.load() == ours; }));
}

TEST(WhoHasNothingToDoIsLeftWhereItIs) {
  const auto [first, second] = TwoCores();
  Subject busy(second, true);
  Competitor competitor(second);
  std::thread waiter([&, ours = first] {
    PinnedThread self;
    PinThread({ours});
    self.Settle(ours);
    CoreWatch watch(&self, &busy.pinned);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    while (std::chrono::steady_clock::now() < end) watch.Look([] { return false; });
    CHECK(self.core() == ours);
    self.Leave();
  });
  waiter.join();
  CHECK(busy.pinned.core() == second);
}

/*! \brief A loop whose piece on one thread waits there until it may run on another core. */
struct Loop {
  std::thread::id held;        //!< who is to be held up; nobody else's pieces wait
  bool holds_runner{false};
  std::atomic<int> core{-1};   //!< on which it could go on
};

int WaitForAnotherCore(int, ParallelEnvironment*, void* data) {
  auto* loop = static_cast<Loop*>(data);
  const bool is_runner = std::this_thread::get_id() == loop->held;
  if (is_runner != loop->holds_runner || loop->core.load() >= 0) return 0;
  const int before = AllowedCores().front();
  const Competitor competitor(before);
  ComesTrue([&] {
    const int now = AllowedCores().front();
    if (now != before) loop->core.store(now);
    return now != before;
  });
  return 0;
}

/*! \brief Whether a piece that the runner, or the member, holds can go on on the other's core. */
bool GoesOnElsewhere(bool holds_runner) {
  const auto [first, second] = TwoCores();
  PinnedThread runner;
  std::atomic<bool> is_at_work{true};
  Loop loop;
  loop.holds_runner = holds_runner;
  std::thread thread([&, first = first, second = second] {
    PinThread({first});
    runner.Settle(first);
    loop.held = std::this_thread::get_id();
    Team team("team", {first, second}, true, &runner, &is_at_work);
    // On a busy machine one of the two may come too late to have a piece.
    ComesTrue([&] { return team.Run(WaitForAnotherCore, &loop, 8) != 0 || loop.core.load() >= 0; });
    runner.Leave();
  });
  thread.join();
  return loop.core.load() >= 0;
}

TEST(AMembersPieceGoesOnOnTheRunnersCore) {
  const auto [first, second] = TwoCores();
  if (first != second) CHECK(GoesOnElsewhere(false));
}

TEST(ARunnersPieceGoesOnOnAMembersCore) {
  const auto [first, second] = TwoCores();
  if (first != second) CHECK(GoesOnElsewhere(true));
}

}  // namespace
}  // namespace tvm_hetero::tests
