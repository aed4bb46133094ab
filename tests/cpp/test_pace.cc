// Work beside others: rests are four times as long as what was done between them.
#include <time.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "harness.h"
#include "memory/host_memory.h"
#include "support/pace.h"

namespace tvm_hetero::tests {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

Nanoseconds Used() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds{now.tv_sec} + Nanoseconds{now.tv_nsec};
}

TEST(WhoWorksAtAPaceLeavesFourFifthsToOthers) {
  const auto begin = std::chrono::steady_clock::now();
  const Nanoseconds used = Used();
  Pace pace(true);
  Nanoseconds worked{0};
  for (int piece = 1; piece <= 3; ++piece) {
    while (Used() - used < piece * Nanoseconds{1'000'000}) {
    }
    worked = Used() - used;
    pace.Rest();
  }
  CHECK(std::chrono::steady_clock::now() - begin >= 5 * worked - Nanoseconds{100'000});
}

TEST(WhatIsMadeReadyInPiecesIsWhole) {
  constexpr size_t kBytes = (size_t{5} << 20) + 12'345;
  Pace pace(true);
  const PagesInPieces in_pieces(&pace);
  auto* data = static_cast<char*>(AllocateHost(kBytes));
  CHECK(data != nullptr);
  std::memset(data, 3, kBytes);
  CHECK(data[0] == 3 && data[kBytes - 1] == 3);
  FreeHost(data, kBytes);
}

}  // namespace
}  // namespace tvm_hetero::tests
