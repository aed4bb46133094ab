// Meetings: the threads of others run a step together; who is late, fails or dies harms no one else.
#include <tvm/ffi/error.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "executor/loop_board.h"
#include "harness.h"
#include "sample.h"

namespace tvm_hetero::tests {
namespace {

TEST(StepsOfAMeetingAreRunInTheirOrder) {
  Sample sample(Meeting::kOfBoth);
  for (int x = 0; x < 200; ++x) sample.CheckServes(static_cast<float>(x));
  auto by = sample.Call("run_by").cast<ffi::Array<int64_t>>();
  CHECK(by[0] == 4);
  CHECK(by[5] == 4);
}

TEST(AnotherThreadTakesPieces) {
  Sample sample(Meeting::kOfBoth);
  for (int run = 0; run < 20; ++run) sample.CheckServes(kTogether);
}

TEST(ManyRequestsInFlightThroughAMeeting) {
  Sample sample(Meeting::kOfBoth);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] {
      for (int i = 0; i < 60; ++i) {
        const auto x = static_cast<float>(100 * number + i);
        if (!sample.Outcome(sample.Submit(Filled(x)), x).empty()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST(AMeetingIsCancelledAndServesAgain) {
  Sample sample(Meeting::kOfBoth);
  ClosedGate closed;
  const int64_t id = sample.Submit(Filled(kGated));
  TheGate().AwaitArrival();
  CHECK(sample.Call("cancel", id).cast<bool>());
  CHECK_CONTAINS(sample.Outcome(id, kGated), "cancelled");
  TheGate().Open();
  sample.CheckServes(1);
}

TEST(AnErrorInAMeetingNamesIt) {
  Sample sample(Meeting::kOfBoth);
  CHECK_CONTAINS(sample.Outcome(sample.Submit(Filled(kThrows)), 0), "'stem' on worker 'ab' failed");
  sample.CheckServes(1);
}

/*! \brief Requests with a fault armed at every point, in turn; all others and the next one are right. */
int CheckEveryNthOf(const std::string& kind) {
  Sample sample(Meeting::kOfBoth);
  for (int nth = 1; nth < 100; ++nth) {
    int failed = 0;
    {
      Fault fault(kind, nth);
      std::vector<int64_t> ids;
      for (int x = 0; x < 3; ++x) ids.push_back(sample.Submit(Filled(static_cast<float>(x))));
      for (int x = 0; x < 3; ++x) failed += !sample.Outcome(ids[x], static_cast<float>(x)).empty();
    }
    if (failed == 0) return nth - 1;
    CHECK(kind == "worker" || failed == 1);
    sample.CheckServes(7);
  }
  throw CheckFailed("faults never end");
}

TEST(EveryKernelOfAMeetingFails) { CHECK(CheckEveryNthOf("kernel") == 18); }

TEST(EveryThreadOfAMeetingDies) { CHECK(CheckEveryNthOf("worker") >= 7); }

TEST(AMeetingOfOneIsItsThread) {
  LoopBoard board;
  int told = 0;
  auto tell = [](int, ParallelEnvironment* environment, void* data) {
    *static_cast<int*>(data) = environment->pieces;
    return 0;
  };
  CHECK(board.Run(tell, &told, 0) == 0);
  CHECK(told == 1);
  CHECK(!board.IsOpen());
}

}  // namespace
}  // namespace tvm_hetero::tests
