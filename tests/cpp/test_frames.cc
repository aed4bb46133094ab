// How many batches are in flight where memory is scarce, and that one alone serves everybody.
#include <thread>
#include <vector>

#include "harness.h"
#include "sample.h"

namespace tvm_hetero::tests {
namespace {

// What the sample takes on the host: 128 bytes of scratch for each of two workers that are alike,
// twice 64 for the output that callers hold (the other has no type), and 3 * 64 for each batch.
constexpr int64_t kAlways = 2 * 128 + 2 * 64, kBatch = 3 * 64;

TEST(AsManyBatchesAsTheMemoryHolds) {
  const int64_t wanted = Sample().Frames();
  CHECK(wanted > 3);
  for (int64_t frames : {1, 2, 3}) {
    CHECK(Sample(kAlways + frames * kBatch).Frames() == frames);
    CHECK(Sample(kAlways + (frames + 1) * kBatch - 1).Frames() == frames);
  }
  CHECK(Sample(INT64_MAX).Frames() == wanted);
  CHECK(Sample(0).Frames() == 1);
}

TEST(OneBatchInFlightServesManyThreads) {
  Sample sample(0);
  std::vector<std::string> errors(4);
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < errors.size(); ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 30 && errors[thread].empty(); ++i) {
        const float x = i % 8 == 7 ? kThrows : static_cast<float>(100 * thread + i);
        std::string error = sample.Outcome(sample.Submit(Filled(x)), x);
        const bool right = x == kThrows ? Contains(error, "not wanted") : error.empty();
        if (!right) errors[thread] = "wrong: " + error;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) Check(error.empty(), error, __LINE__);
}

TEST(OneBatchInFlightMakesAStream) {
  Sample sample(0);
  sample.Call("set_input", 0, Filled(1));
  CHECK(sample.Call("run_stream", 30).cast<ffi::Array<double>>().size() == 30);
  CHECK(sample.Call("run_repeated", 5).cast<ffi::Array<double>>().size() == 5);
  ClosedGate gate;
  int64_t stopped = sample.Submit(Filled(kGated));
  CHECK(sample.Submit(Filled(1), 0, 0.01) == 0);  // no room
  sample.Call("cancel", stopped);
  TheGate().Open();
  sample.CheckServes(2);
}

}  // namespace
}  // namespace tvm_hetero::tests
