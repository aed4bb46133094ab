// Requests from one thread and from several: order, bounds, cancels, deadlines, the end.
#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "harness.h"
#include "sample.h"
#include "threads.h"

namespace tvm_hetero::tests {
namespace {

TEST(OneAfterTheOther) {
  Sample sample;
  for (int x = 0; x < 20; ++x) sample.CheckServes(static_cast<float>(x));
}

TEST(ServedInOneCall) {
  Sample sample;
  for (int x = 0; x < 50; ++x) {
    Sample::CheckOutputs(sample.Serve(Filled(static_cast<float>(x))).value(), static_cast<float>(x));
  }
  CHECK_CONTAINS(Thrown([&] { sample.Serve(Filled(kThrows)); }), "not wanted");
  Sample::CheckOutputs(sample.Serve(Filled(1)).value(), 1);
}

TEST(ServedWhileOthersSubmit) {
  Sample sample;
  InThreads(4, [&](int thread) {
    for (int i = 0; i < 60; ++i) {
      auto x = static_cast<float>(100 * thread + i);
      if (thread % 2 == 0) {
        Sample::CheckOutputs(sample.Serve(Filled(x)).value(), x);
      } else {
        sample.CheckServes(x);
      }
    }
  });
}

/*! \brief What stops an executor when so many requests have begun. */
std::function<void()> StopAfter(int count, const std::atomic<int>& begun, Sample& sample) {
  return [count, &begun, &sample] {
    while (begun < count) std::this_thread::yield();
    sample.Call("stop");
  };
}

TEST(ServedWhileAnotherThreadCloses) {
  for (int round = 0; round < 5; ++round) {
    Sample sample;
    std::atomic<int> begun{0};
    Background stopper(StopAfter(20, begun, sample));
    std::string error;
    for (; error.empty(); ++begun) {
      try {
        Sample::CheckOutputs(sample.Serve(Filled(1)).value(), 1);
      } catch (const ffi::Error& refused) {
        error = refused.what();
      }
    }
    CHECK_CONTAINS(error, "closed");
    stopper.Join();
  }
}

TEST(NotServedWithoutRoom) {
  Sample sample;
  ClosedGate closed;
  std::vector<int64_t> ids;
  while (int64_t id = sample.Submit(Filled(kGated), 0, 0)) ids.push_back(id);
  CHECK(!sample.Serve(Filled(1), 0, 0.001));
  CHECK_CONTAINS(Thrown([&] { sample.Serve(Filled(1), 0.001, 0.5); }), "deadline");
  TheGate().Open();
  for (int64_t id : ids) CHECK(sample.Outcome(id, kGated) == "");
}

TEST(WhoIsLateMayWaitForTheKernelThatStillRuns) {
  Sample sample;
  bool waited = false;
  // A request that is late before its kernel begins does not run it, and waits for nothing: on a busy
  // machine the way there takes longer than the first of these deadlines.
  for (double deadline = 0.001; !waited && deadline < 10; deadline *= 10) {
    ClosedGate closed;
    std::atomic<bool> opened{false};
    Background opener([&] {
      TheGate().AwaitArrival();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      opened = true;
      TheGate().Open();
    });
    CHECK_CONTAINS(Thrown([&] { sample.Serve(Filled(kGated), deadline, -1, 60); }), "deadline");
    waited = opened;
    if (!waited) sample.Wait(sample.Submit(Filled(kGated)));  // for the opener
    opener.Join();
  }
  CHECK(waited);
  sample.CheckServes(1);
}

TEST(AnExecutorThatIsNeverUsedEnds) { Sample sample; }

TEST(RunAndStream) {
  Sample sample;
  sample.Call("set_input", 0, Filled(1));
  sample.Call("run");
  ffi::Array<ffi::Tensor> outputs = {sample.Call("get_output", 0).cast<ffi::Tensor>(),
                                     sample.Call("get_output", 1).cast<ffi::Tensor>()};
  Sample::CheckOutputs(outputs, 1);
  CHECK(sample.Call("run_stream", 30).cast<ffi::Array<double>>().size() == 30);
  CHECK(sample.Call("run_repeated", 5).cast<ffi::Array<double>>().size() == 5);
  CHECK(sample.Call("trace").cast<ffi::Array<double>>().size() == 14);
  CHECK(sample.Call("waits").cast<ffi::Array<double>>().size() == 7);
}

TEST(KernelsAreTimed) {
  Sample sample;
  sample.Call("profile_kernels", true);
  sample.Call("set_input", 0, Filled(1));
  sample.Call("run");
  auto times = sample.Call("kernel_times").cast<ffi::Array<double>>();
  CHECK(times.size() == 5);
  for (double seconds : times) CHECK(seconds >= 0);
}

TEST(ManyThreads) {
  Sample sample;
  InThreads(4, [&](int thread) {
    for (int i = 0; i < 60; ++i) sample.CheckServes(static_cast<float>(100 * thread + i));
  });
}

/*! \brief One request of a kind drawn at random, cancelled or late at random. */
void RunAtRandom(Sample* sample, std::mt19937* random, float value) {
  auto one_in = [&](unsigned n) { return (*random)() % n == 0; };
  const bool bad = one_in(8), late = one_in(8);
  const float x = bad ? kThrows : value;
  std::string error;
  try {
    int64_t id = sample->Submit(Filled(x), late ? 1e-4 : 0.0);
    if (one_in(4)) sample->Call("cancel", id);
    if (one_in(8)) {
      sample->Call("forget", id);
      return;
    }
    error = sample->Outcome(id, x);
  } catch (const ffi::Error& refused) {  // a deadline may pass before there is room
    error = refused.what();
    CHECK(late);
  }
  CHECK(!bad || !error.empty());
  CHECK(error.empty() || Contains(error, "cancelled") || (late && Contains(error, "deadline")) ||
        (bad && Contains(error, "not wanted")));
}

TEST(ManyThreadsWithCancelsAndErrors) {
  Sample sample;
  InThreads(4, [&](int thread) {
    std::mt19937 random(static_cast<unsigned>(thread));
    for (int i = 0; i < 60; ++i) {
      RunAtRandom(&sample, &random, static_cast<float>(100 * thread + i));
    }
  });
  sample.CheckServes(1);
}

TEST(FinishedRequestsAreTold) {
  Sample sample;
  std::set<int64_t> waiting, told;
  Background listener([&] {
    while (told.size() < 40) told.insert(sample.Call("next_done", 10.0).cast<int64_t>());
  });
  for (int i = 0; i < 40; ++i) waiting.insert(sample.Submit(Filled(1), 0, -1, true));
  listener.Join();
  CHECK(told == waiting);
  for (int64_t id : told) Sample::CheckOutputs(sample.Take(id), 1);
}

TEST(OutputsThatAreHeldStayWhatTheyAre) {
  Sample sample;
  std::vector<ffi::Array<ffi::Tensor>> held;
  for (int x = 0; x < 20; ++x) {
    int64_t id = sample.Submit(Filled(static_cast<float>(x)));
    sample.Wait(id);
    held.push_back(sample.Take(id));
  }
  for (int x = 0; x < 20; ++x) Sample::CheckOutputs(held[x], static_cast<float>(x));
}

TEST(NothingIsAllocatedInSteadyState) {
  Sample sample;
  std::vector<int64_t> ids;
  for (int x = 0; x < 10; ++x) sample.CheckServes(1);
  int64_t before = sample.Allocations();
  for (int x = 0; x < 50; ++x) sample.CheckServes(static_cast<float>(x));
  CHECK(sample.Allocations() == before);
}

TEST(AFullPipelineTakesNoMore) {
  Sample sample;
  ClosedGate closed;
  std::vector<int64_t> ids;
  while (int64_t id = sample.Submit(Filled(kGated), 0, 0)) ids.push_back(id);
  TheGate().Open();
  CHECK(static_cast<int64_t>(ids.size()) == sample.Frames());
  for (int64_t id : ids) CHECK(sample.Outcome(id, kGated) == "");
  sample.CheckServes(1);
}

TEST(ACancelledRequestIsDoneAtOnce) {
  Sample sample;
  ClosedGate closed;
  int64_t id = sample.Submit(Filled(kGated));
  int64_t next = sample.Submit(Filled(2));
  TheGate().AwaitArrival();
  CHECK(sample.Call("cancel", id).cast<bool>());
  CHECK_CONTAINS(sample.Outcome(id, kGated), "cancelled");  // while its kernel still runs
  TheGate().Open();
  CHECK(sample.Wait(next));
  CHECK(!sample.Call("cancel", next).cast<bool>());
  CHECK(sample.Outcome(next, 2) == "");
  sample.CheckServes(3);
}

TEST(ALateRequestIsDoneAtItsDeadline) {
  Sample sample;
  ClosedGate closed;
  int64_t id = sample.Submit(Filled(kGated), 0.01);
  int64_t next = sample.Submit(Filled(2));
  CHECK_CONTAINS(sample.Outcome(id, kGated), "deadline");
  TheGate().Open();
  CHECK(sample.Outcome(next, 2) == "");
  sample.CheckServes(3);
}

TEST(NumbersAreChecked) {
  Sample sample;
  sample.Call("check_numerics", true);
  int64_t good = sample.Submit(Filled(1));
  std::string error = sample.Outcome(sample.Submit(Filled(kNotFinite)), kNotFinite);
  CHECK_CONTAINS(error, "numerics");
  CHECK_CONTAINS(error, "t0");
  CHECK(sample.Outcome(good, 1) == "");
  sample.CheckServes(2);
}

TEST(StoppedInTheMiddle) {
  Sample sample;
  ClosedGate closed;
  std::vector<int64_t> ids;
  while (int64_t id = sample.Submit(Filled(kGated), 0, 0)) ids.push_back(id);
  Background queued([&] {
    CHECK_CONTAINS(Thrown([&] { sample.Submit(Filled(1)); }), "closed");
  });
  TheGate().AwaitArrival();
  sample.Call("stop");
  queued.Join();
  for (int64_t id : ids) CHECK_CONTAINS(sample.Outcome(id, kGated), "closed");
  TheGate().Open();
  CHECK_CONTAINS(Thrown([&] { sample.Submit(Filled(1)); }), "closed");
}

TEST(StoppedWhileThreadsSubmit) {
  for (int round = 0; round < 5; ++round) {
    Sample sample;
    std::atomic<int> begun{0};
    Background stopper(StopAfter(20, begun, sample));
    InThreads(3, [&](int) {
      for (std::string error; error.empty(); ++begun) {
        try {
          error = sample.Outcome(sample.Submit(Filled(1)), 1);
        } catch (const ffi::Error& refused) {
          error = refused.what();
        }
        if (!error.empty()) CHECK_CONTAINS(error, "closed");
      }
    });
    stopper.Join();
  }
}

TEST(DroppedWithRequestsInFlight) {
  for (int round = 0; round < 10; ++round) {
    Sample sample;
    for (int i = 0; i < round; ++i) sample.Submit(Filled(static_cast<float>(i)), 0, 0);
  }
}

}  // namespace
}  // namespace tvm_hetero::tests
