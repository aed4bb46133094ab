// Parallel loops: each piece once, whoever takes it; errors reach who ran the loop; loops within
// loops are one piece; a thread that is held up keeps one piece only.
#include <tvm/ffi/error.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "executor/parallel_loops.h"
#include "executor/team.h"
#include "executor/thread_setup.h"
#include "harness.h"

namespace tvm_hetero::tests {
namespace {

/*! \brief So many cores, the same ones again where there are fewer. */
std::vector<int> Cores(size_t count) {
  const std::vector<int> here = AllowedCores();
  std::vector<int> cores;
  for (size_t i = 0; i < count; ++i) cores.push_back(here[i % here.size()]);
  return cores;
}

/*! \brief What a loop does: counts each piece, and what it was told of their number. */
struct Counts {
  std::vector<std::atomic<int>> pieces = std::vector<std::atomic<int>>(256);
  std::atomic<int> told{0};
};

int CountPiece(int piece, ParallelEnvironment* environment, void* data) {
  auto* counts = static_cast<Counts*>(data);
  counts->pieces[piece].fetch_add(1);
  counts->told.store(environment->pieces);
  return 0;
}

int Sum(const Counts& counts) {
  int sum = 0;
  for (const auto& each : counts.pieces) sum += each.load();
  return sum;
}

TEST(EachPieceRunsOnce) {
  for (size_t threads = 1; threads <= 4; ++threads) {
    for (bool may_spin : {false, true}) {
      Team team("team", Cores(threads), may_spin);
      for (int run = 0; run < 300; ++run) {
        Counts counts;
        CHECK(team.Run(CountPiece, &counts, 0) == 0);
        const int pieces = counts.told.load();
        CHECK(Sum(counts) == pieces);
        for (int i = 0; i < pieces; ++i) CHECK(counts.pieces[i].load() == 1);
        if (run % 100 == 99) team.Rest();
      }
    }
  }
}

TEST(AsManyPiecesAsAreAskedFor) {
  Team team("team", Cores(2), true);
  Counts counts;
  CHECK(team.Run(CountPiece, &counts, 7) == 0);
  CHECK(counts.told.load() == 7);
  CHECK(Sum(counts) == 7);
}

TEST(ATeamOfOneRunsOnePiece) {
  Team team("team", Cores(1), true);
  Counts counts;
  CHECK(team.Run(CountPiece, &counts, 0) == 0);
  CHECK(counts.told.load() == 1);
}

TEST(MembersThatSleepAreWoken) {
  Team team("team", Cores(3), false);
  for (int run = 0; run < 5; ++run) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    Counts counts;
    CHECK(team.Run(CountPiece, &counts, 0) == 0);
    CHECK(Sum(counts) == counts.told.load());
  }
}

int FailAt(int piece, ParallelEnvironment*, void* data) {
  if (piece != *static_cast<int*>(data)) return 0;
  TVMFFIErrorSetRaisedFromCStr("MemoryError", ("piece " + std::to_string(piece)).c_str());
  return -1;
}

TEST(AnErrorReachesWhoRanTheLoop) {
  Team team("team", Cores(3), true);
  for (int piece = 0; piece < 12; ++piece) {
    CHECK(team.Run(FailAt, &piece, 12) == -1);
    const ffi::Error error = ffi::details::MoveFromSafeCallRaised();
    CHECK(error.kind() == "MemoryError");
    CHECK_CONTAINS(std::string(error.what()), "piece " + std::to_string(piece));
    int none = -1;
    CHECK(team.Run(FailAt, &none, 12) == 0);
  }
}

int LaunchInside(int, ParallelEnvironment*, void* data) {
  return LaunchParallelLoop(CountPiece, data, 0);
}

TEST(ALoopWithinALoopIsOnePiece) {
  Team team("team", Cores(2), true);
  const LoopsOfThread ours(&team);
  Counts counts;
  CHECK(LaunchParallelLoop(LaunchInside, &counts, 5) == 0);
  CHECK(counts.told.load() == 1);
  CHECK(counts.pieces[0].load() == 5);
  Counts again;  // and afterwards the team is there again
  CHECK(LaunchParallelLoop(CountPiece, &again, 0) == 0);
  CHECK(again.told.load() > 1);
}

TEST(AThreadWithoutATeamRunsALoopWhole) {
  Counts counts;
  CHECK(LaunchParallelLoop(CountPiece, &counts, 0) == 0);
  CHECK(counts.told.load() == 1);
  const LoopsOfThread ours(nullptr);
  CHECK(LaunchParallelLoop(CountPiece, &counts, 0) == 0);
  CHECK(counts.pieces[0].load() == 2);
}

/*! \brief Holds whoever takes piece 0 until all others are done. */
struct HeldUp {
  std::atomic<int> done{0};
  int others;
};

int HoldFirst(int piece, ParallelEnvironment*, void* data) {
  auto* held = static_cast<HeldUp*>(data);
  if (piece == 0) {
    while (held->done.load() < held->others) std::this_thread::yield();
  } else {
    held->done.fetch_add(1);
  }
  return 0;
}

TEST(WhoIsHeldUpKeepsOnePieceOnly) {
  Team team("team", Cores(2), true);
  for (int run = 0; run < 20; ++run) {
    HeldUp held;
    held.others = 63;
    CHECK(team.Run(HoldFirst, &held, 64) == 0);  // would never end if pieces were dealt out
    CHECK(held.done.load() == 63);
  }
}

TEST(ACoreThatIsNotThereIsAnError) {
  CHECK_CONTAINS(Thrown([] { Team("team", {0, 0, 1000}, true); }), "core");
}

}  // namespace
}  // namespace tvm_hetero::tests
