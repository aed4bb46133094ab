// One executor takes over from another on the same cores: who waits, who ends, and in which order.
#include <tvm/ffi/error.h>

#include <atomic>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "executor/departure.h"
#include "executor/step_log.h"
#include "executor/thread_setup.h"
#include "harness.h"
#include "sample.h"
#include "threads.h"

namespace tvm_hetero::tests {
namespace {

bool Retire(const Sample& sample, double seconds = -1) {
  return sample.Call("retire", seconds).cast<bool>();
}

/*! \brief Whether an error says that another plan takes the request. */
bool IsRetired(const std::string& error) { return error.rfind("retired", 0) == 0; }

TEST(WhatIsInFlightEndsAndNothingMoreBegins) {
  Sample old(Cores::kPinned);
  ClosedGate closed;
  const int64_t id = old.Submit(Filled(kGated));
  TheGate().AwaitArrival();
  CHECK(!Retire(old, 0.01));
  CHECK_CONTAINS(Thrown([&] { old.Submit(Filled(1)); }), "retired: another plan");
  CHECK_CONTAINS(Thrown([&] { old.Serve(Filled(1)); }), "retired: another plan");
  TheGate().Open();
  CHECK(Retire(old));
  CHECK(old.Outcome(id, kGated) == "");
}

TEST(WhoComesTooLateIsSentOnAlsoWhenItIsStopped) {
  Sample old;
  CHECK(Retire(old));
  old.Call("stop");
  CHECK_CONTAINS(Thrown([&] { old.Submit(Filled(1)); }), "retired: another plan");
}

TEST(WhoWaitsForRoomIsSentOn) {
  Sample old;
  ClosedGate closed;
  std::vector<int64_t> ids;
  while (int64_t id = old.Submit(Filled(kGated), 0, 0)) ids.push_back(id);
  std::vector<std::thread> waiting;
  std::atomic<int> sent{0};
  for (double limit : {-1.0, 60.0}) {
    waiting.emplace_back([&, limit] {
      sent += IsRetired(Thrown([&] { old.Submit(Filled(1), 0, limit); }));
      sent += IsRetired(Thrown([&] { old.Serve(Filled(1), 60, limit); }));
    });
  }
  CHECK(!Retire(old, 0.02));
  for (std::thread& thread : waiting) thread.join();
  CHECK(sent == 4);
  TheGate().Open();
  CHECK(Retire(old));
  for (int64_t id : ids) CHECK(old.Outcome(id, kGated) == "");
}

TEST(ACoreGoesOverWhenTheOldPlanIsThroughThere) {
  Sample old(Cores::kPinned);
  ClosedGate closed;
  const int64_t first = old.Submit(Filled(kGated));
  TheGate().AwaitArrival();
  Sample next = Sample::After(old);
  CHECK(!Retire(old, 0));
  const int64_t second = next.Submit(Filled(2));
  CHECK(!next.Wait(second, 0.02));
  TheGate().Open();
  CHECK(next.Outcome(second, 2) == "");
  CHECK(old.Outcome(first, kGated) == "");
}

TEST(WhatIsSkippedNeedsNoCore) {
  Sample old(Cores::kPinned);
  ClosedGate closed;
  old.Submit(Filled(kGated));
  TheGate().AwaitArrival();
  Sample next = Sample::After(old);
  for (int i = 0; i < 20; ++i) {
    const int64_t id = next.Submit(Filled(1));
    CHECK(id > 0);
    CHECK(next.Call("cancel", id).cast<bool>());
    next.Call("forget", id);
  }
  next.Submit(Filled(1));
  next.Call("shutdown");  // without a wait for the old one, which holds the core
}

TEST(TheOldOneMayBeDroppedInsteadOfRetired) {
  auto old = std::make_unique<Sample>(Cores::kPinned);
  Sample next = Sample::After(*old);
  const int64_t id = next.Submit(Filled(1));
  old.reset();
  CHECK(next.Outcome(id, 1) == "");
}

TEST(TheNewOneMayBeDroppedAndTheOldOneGoesOn) {
  Sample old(Cores::kPinned);
  for (int i = 0; i < 5; ++i) {
    Sample next = Sample::After(old);
    old.CheckServes(static_cast<float>(i));
    if (i % 2 == 1) next.Submit(Filled(1));
  }
  old.CheckServes(9);
}

TEST(OneAfterTheOtherWithRequestsInFlight) {
  auto now = std::make_unique<Sample>(Cores::kPinned);
  for (int round = 0; round < 20; ++round) {
    std::vector<int64_t> ids;
    while (int64_t id = now->Submit(Filled(static_cast<float>(round)), 0, 0)) ids.push_back(id);
    const Meeting meeting = round % 3 == 0 ? Meeting::kOfBoth : Meeting::kNone;
    auto next = std::make_unique<Sample>(Sample::After(*now, meeting));
    CHECK(!ids.empty());
    Retire(*now, 0);
    const int64_t id = next->Submit(Filled(7));
    CHECK(Retire(*now));
    for (int64_t each : ids) CHECK(now->Outcome(each, static_cast<float>(round)) == "");
    CHECK(next->Outcome(id, 7) == "");
    now = std::move(next);
  }
}

/*! \brief What takes requests now, for threads that go on when it is retired. */
class Current {
 public:
  explicit Current(std::shared_ptr<Sample> first) : now_(std::move(first)) {}
  std::shared_ptr<Sample> Get() {
    std::lock_guard<std::mutex> lock(mutex_);
    return now_;
  }
  void Set(std::shared_ptr<Sample> next) {
    std::lock_guard<std::mutex> lock(mutex_);
    now_ = std::move(next);
  }
  /*! \brief Serve a request by whatever plan takes it; "" or its error. */
  std::string Serve(float x, std::mt19937* random) {
    for (;;) {
      const std::shared_ptr<Sample> now = Get();
      try {
        const int64_t id = now->Submit(Filled(x));
        if ((*random)() % 5 == 0) now->Call("cancel", id);
        return now->Outcome(id, x);
      } catch (const ffi::Error& error) {
        if (!IsRetired(error.what()) && !Contains(error.what(), "retired")) return error.what();
      }
    }
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<Sample> now_;
};

void SwitchAtOnce(Current* current, int number) {
  const std::shared_ptr<Sample> old = current->Get();
  const Meeting meeting = number % 2 == 0 ? Meeting::kOfBoth : Meeting::kNone;
  auto next = std::make_shared<Sample>(Sample::After(*old, meeting));
  current->Set(next);
  CHECK(Retire(*old));
  old->Call("stop");
}

TEST(ThreadsLoseNothingWhilePlansChange) {
  Current current(std::make_shared<Sample>(Cores::kPinned));
  std::atomic<bool> over{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937 random(static_cast<unsigned>(number));
      for (int i = 0; !over; ++i) {
        const std::string error = current.Serve(static_cast<float>(100 * number + i % 100), &random);
        if (!error.empty() && !Contains(error, "cancelled")) ++wrong;
      }
    });
  }
  for (int number = 0; number < 25; ++number) SwitchAtOnce(&current, number);
  over = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  current.Get()->CheckServes(1);
}

/*! \brief How often points of a kind were passed since it was armed. */
int PassesOf(const std::string& kind) {
  const auto count = ffi::Function::GetGlobalRequired("tvm_hetero.fault_count");
  return static_cast<int>(count(ffi::String(kind)).cast<int64_t>());
}

/*! \brief Switch with a fault armed at every point in turn while requests are in flight. */
int SwitchAtEveryNthOf(const std::string& kind) {
  for (int nth = 1; nth < 100; ++nth) {
    auto old = std::make_unique<Sample>(Cores::kPinned);
    std::unique_ptr<Sample> next;
    std::vector<int64_t> ids;
    int failed = 0;
    {
      Fault fault(kind, nth);
      for (int x = 0; x < 3; ++x) ids.push_back(old->Submit(Filled(static_cast<float>(x))));
      try {
        next = std::make_unique<Sample>(Sample::After(*old));
      } catch (const std::exception& error) {
        CHECK_CONTAINS(error.what(), "injected fault");
        ++failed;
      }
      if (next != nullptr) {
        CHECK(Retire(*old));
        ids.push_back(next->Submit(Filled(3)));
      }
      for (size_t x = 0; x < ids.size(); ++x) {
        Sample* by = x < 3 ? old.get() : next.get();
        failed += !by->Outcome(ids[x], static_cast<float>(x)).empty();
      }
    }
    (next == nullptr ? *old : *next).CheckServes(7);
    // A worker may die with nothing in flight, which fails nobody.
    if (PassesOf(kind) < nth) return nth - 1;
    CHECK(failed > 0 || kind == "worker");
  }
  throw CheckFailed("faults never end");
}

TEST(EveryKernelFailsWhilePlansChange) { CHECK(SwitchAtEveryNthOf("kernel") >= 20); }

TEST(EveryAllocationFailsWhilePlansChange) { CHECK(SwitchAtEveryNthOf("allocation") >= 4); }

TEST(EveryWorkerDiesWhilePlansChange) { CHECK(SwitchAtEveryNthOf("worker") >= 20); }

TEST(AWorkerThatCouldNotBeStartedAgainHoldsNoCore) {
  Sample old(Cores::kPinned);
  {
    Fault fault("worker", 1);
    CHECK_CONTAINS(old.Outcome(old.Submit(Filled(1)), 1), "died");
  }
  {
    Fault fault("worker", 1);
    CHECK_CONTAINS(Thrown([&] { old.Submit(Filled(1)); }), "injected fault");
  }
  Sample next = Sample::After(old);
  CHECK(Retire(old));
  next.CheckServes(1);
}

TEST(WhoFollowsIsWokenByEachWhoLeaves) {
  Plan plan;
  for (const std::vector<int>& cores : {std::vector<int>{0}, {1, 2}, {}}) {
    plan.workers.emplace_back();
    plan.workers.back().cores = cores;
  }
  Departure departure(plan);
  CHECK(departure.Holds(0));
  CHECK(departure.Holds(2));
  CHECK(!departure.Holds(3));
  for (int round = 0; round < 50; ++round) {
    std::deque<Parker> parkers(2);
    departure.Follow(&parkers);
    std::vector<std::thread> waiting;
    for (int i = 0; i < 2; ++i) {
      waiting.emplace_back([&, i] {
        parkers[i].Await(Parker::Duration{0}, [&] { return departure.HasLeft(i); });
      });
    }
    departure.Leave(1);
    CHECK(!departure.Holds(2));
    CHECK(departure.Holds(0));
    departure.Leave(0);
    CHECK(!departure.Holds(0));
    for (std::thread& thread : waiting) thread.join();
    departure.Unfollow(&parkers);
    departure.Stay(0);
    departure.Stay(1);
  }
}

TEST(AfterAnExchangeACoreIsHeldByWhoIsThere) {
  const std::vector<int> here = AllowedCores();
  const int first = here.front(), second = here.back();
  if (first == second) return;
  Plan plan;
  for (int core : {first, second}) {
    plan.workers.emplace_back();
    plan.workers.back().cores = {core};
  }
  Departure departure(plan);
  PinnedThread& one = departure.threads()[0];
  PinnedThread& other = departure.threads()[1];
  std::promise<void> settled, exchanged;
  Background sits([&] {
    PinThread({second});
    other.Settle(second);
    settled.set_value();
    exchanged.get_future().wait();
    other.Leave();
  });
  Background goes([&] {
    PinThread({first});
    one.Settle(first);
    settled.get_future().wait();
    one.Exchange(&other);
    one.Leave();
    exchanged.set_value();
  });
  goes.Join();
  sits.Join();
  CHECK(other.core() == first);
  departure.Leave(0);
  CHECK(departure.Holds(first));
  CHECK(!departure.Holds(second));
  departure.Leave(1);
  CHECK(!departure.Holds(first));
}

TEST(ATeamHoldsAllOfItsCores) {
  const std::vector<int> here = AllowedCores();
  Plan plan;
  plan.workers.emplace_back();
  plan.workers.back().cores = {here.front(), here.back()};
  Departure departure(plan);
  Background leads([&] {
    PinThread({here.front()});
    departure.threads()[0].Settle(here.front());
    CHECK(departure.Holds(here.front()));
    CHECK(departure.Holds(here.back()));
    departure.threads()[0].Leave();
  });
  leads.Join();
  departure.Leave(0);
  CHECK(!departure.Holds(here.back()));
}

TEST(ALogKeepsTheLastOnes) {
  StepLog log(1, Clock::time_point{});
  const std::vector<Span> spans = {Span{1, 2, 0, 0, 0.5, 0.25}};
  auto add = [&](int count) {
    for (int i = 0; i < count; ++i) log.Add(i, i + 1, spans);
  };
  auto rows = [&] { return log.Take().shape()[0]; };
  add(3);
  CHECK(rows() == 0);
  log.Watch(4);
  add(10);
  log.Watch(2);  // the oldest go
  add(1);
  ffi::Tensor table = log.Take();
  CHECK(table.shape()[0] == 2);
  CHECK(static_cast<const double*>(table.data_ptr())[0] == 9);
  add(5);
  CHECK(rows() == 2);
  add(1);
  log.Watch(0);
  CHECK(!log.is_on());
  CHECK(rows() == 0);
}

}  // namespace
}  // namespace tvm_hetero::tests
