// The n-th kernel, copy, allocation and step of a worker fails, for every n: the request that it
// belongs to gets an error, all others their outputs, and the next one is served.
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "harness.h"
#include "sample.h"

namespace tvm_hetero::tests {
namespace {

constexpr int kManyFaults = 500;  // more than there are points to fail in a few requests

/*! \brief Submit `count` requests with a fault armed. \return How many failed. */
int FailedOf(Sample* sample, int count, const std::string& kind, int nth) {
  Fault fault(kind, nth);
  std::vector<int64_t> ids;
  int failed = 0;
  for (int x = 0; x < count; ++x) {
    try {
      ids.push_back(sample->Submit(Filled(static_cast<float>(x))));
    } catch (const ffi::Error& error) {  // a frame's memory may be reserved in submit
      CHECK_CONTAINS(error.what(), "injected fault");
      ids.push_back(0);
    }
  }
  for (int x = 0; x < count; ++x) {
    std::string error = ids[x] == 0 ? "refused" : sample->Outcome(ids[x], static_cast<float>(x));
    if (error.empty()) continue;
    ++failed;
    if (ids[x] != 0) CHECK_CONTAINS(error, kind == "worker" ? "died" : "injected fault");
  }
  return failed;
}

/*! \brief Every n for one executor. \return How many n hurt. */
int CheckEveryNth(const std::string& kind, int in_flight) {
  Sample sample;
  for (int nth = 1; nth < kManyFaults; ++nth) {
    int failed = FailedOf(&sample, in_flight, kind, nth);
    if (failed == 0) return nth - 1;
    // A worker that dies takes with it what is in flight; everything else hurts one request.
    CHECK(kind == "worker" || failed == 1);
    sample.CheckServes(7);
  }
  throw CheckFailed("faults never end");
}

TEST(EveryKernelFails) { CHECK(CheckEveryNth("kernel", 1) == 6); }

TEST(EveryKernelFailsWithOthersInFlight) { CHECK(CheckEveryNth("kernel", 3) == 18); }

TEST(EveryCopyFails) { CHECK(CheckEveryNth("copy", 1) == 2); }

TEST(EveryCopyFailsWithOthersInFlight) { CHECK(CheckEveryNth("copy", 3) == 6); }

TEST(EveryWorkerDiesAtEveryStep) { CHECK(CheckEveryNth("worker", 1) == 7); }

TEST(EveryWorkerDiesWithOthersInFlight) { CHECK(CheckEveryNth("worker", 3) >= 7); }

/*! \brief One allocation fails, at load or later. \return Whether anything was hurt. */
bool IsHurtByAllocation(int nth) {
  std::unique_ptr<Sample> sample;
  {
    Fault fault("allocation", nth);
    try {
      sample = std::make_unique<Sample>();
    } catch (const ffi::Error& error) {
      CHECK_CONTAINS(error.what(), "injected fault");
      return true;
    }
  }
  int failed = FailedOf(sample.get(), 3, "allocation", nth);
  CHECK(failed <= 1);
  sample->CheckServes(1);
  return failed > 0;
}

TEST(EveryAllocationFails) {
  int nth = 1;
  while (IsHurtByAllocation(nth)) ++nth;
  CHECK(nth > 1);
  CHECK(nth < kManyFaults);
}

TEST(AllocationsFailWhileOutputsAreHeld) {
  Sample sample;
  std::vector<ffi::Array<ffi::Tensor>> held;
  for (int x = 0; x < 60; ++x) {
    Fault fault("allocation", 1 + x % 3);
    int64_t id = sample.Submit(Filled(static_cast<float>(x)));
    sample.Wait(id);
    try {
      held.push_back(sample.Take(id));
      Sample::CheckOutputs(held.back(), static_cast<float>(x));
    } catch (const ffi::Error& error) {
      CHECK_CONTAINS(error.what(), "injected fault");
    }
  }
  CHECK(held.size() < 60);  // so many are not reserved
  sample.CheckServes(1);
}

size_t CountThreads() {
  auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

TEST(WorkersThatDieOftenAreStartedAgain) {
  Sample sample;
  sample.CheckServes(1);
  const size_t threads = CountThreads();
  for (int round = 0; round < 10; ++round) {
    FailedOf(&sample, 4, "worker", 1 + round % 5);
    sample.CheckServes(static_cast<float>(round));
  }
  CHECK(CountThreads() == threads);
}

TEST(NothingIsLeftInSlotsAfterFailures) {
  Sample sample;
  for (const char* kind : {"kernel", "copy", "worker"}) {
    for (int nth = 1; nth < 8; ++nth) FailedOf(&sample, 3, kind, nth);
  }
  sample.Call("set_input", 0, Filled(1));
  sample.Call("run");
  auto filled = sample.Call("filled_slots").cast<ffi::Array<int64_t>>();
  for (int64_t slot : filled) CHECK(slot >= 7);  // those of the outputs alone
}

TEST(StoppedWithADeadWorker) {
  Sample sample;
  FailedOf(&sample, 1, "worker", 3);
  sample.Call("stop");
}

}  // namespace
}  // namespace tvm_hetero::tests
