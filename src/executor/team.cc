#include "executor/team.h"

#include <algorithm>
#include <exception>
#include <future>
#include <utility>

#include "executor/thread_setup.h"

namespace tvm_hetero {
namespace {

// More pieces than threads: the last ones to end wait for a part of a share only. Each begins anew
// with what a loop does before its first turn, so not too many.
constexpr int kPiecesPerThread = 4;
constexpr int kMostPieces = 0xffff;

// How long a member spins: between the loops of a request, and after the last one that was seen.
constexpr std::chrono::milliseconds kSpinAtWork{2};
constexpr std::chrono::microseconds kSpinAtRest{50};

// The word: 32 bits count the loops, 16 are the number of pieces, 16 the next piece.
uint64_t WordOf(uint32_t loop, int pieces) {
  return (static_cast<uint64_t>(loop) << 32) | (static_cast<uint64_t>(pieces) << 16);
}
uint32_t LoopOf(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
int PiecesOf(uint64_t word) { return static_cast<int>((word >> 16) & 0xffff); }
int NextOf(uint64_t word) { return static_cast<int>(word & 0xffff); }

}  // namespace

Team::Team(const std::string& name, const std::vector<int>& cores, bool may_spin)
    : may_spin_(may_spin) {
  try {
    for (size_t i = 1; i < cores.size(); ++i) {
      members_.push_back(std::make_unique<Member>());
      Start(members_.back().get(), cores[i], name + "/" + std::to_string(i));
    }
  } catch (...) {
    End();  // the destructor of a half-made object is not called
    throw;
  }
}

Team::~Team() { End(); }

/*! \brief Start a member's thread and wait until it is set up; throws what went wrong there. */
void Team::Start(Member* member, int core, const std::string& name) {
  std::promise<void> ready;
  std::future<void> outcome = ready.get_future();
  member->thread = std::thread([this, member, core, name, ready = std::move(ready)]() mutable {
    try {
      NameThread(name);
      PinThread({core});
    } catch (const std::exception&) {
      return ready.set_exception(std::current_exception());
    }
    ready.set_value();
    Serve(member);
  });
  outcome.get();
}

void Team::End() {
  closing_.store(true);
  for (auto& member : members_) member->parker.Unpark();
  for (auto& member : members_) {
    if (member->thread.joinable()) member->thread.join();
  }
}

int Team::Run(ParallelLoop loop, void* data, int pieces) noexcept {
  if (pieces <= 0) pieces = static_cast<int>(members_.size() + 1) * kPiecesPerThread;
  if (members_.empty()) pieces = 1;
  pieces = std::min(pieces, kMostPieces);
  loop_ = loop;
  data_ = data;
  environment_.pieces = pieces;
  done_.store(0, std::memory_order_relaxed);
  at_work_.store(true, std::memory_order_relaxed);
  const uint64_t word = WordOf(LoopOf(word_.load(std::memory_order_relaxed)) + 1, pieces);
  word_.store(word);
  for (auto& member : members_) member->parker.Unpark();
  TakePieces(word);
  // The last pieces are in work elsewhere. They are short; where they are not, since a core is
  // somebody else's, sleeping would not end them sooner.
  for (int turn = 0; done_.load(std::memory_order_acquire) < pieces; ++turn) {
    turn < 4096 ? Relax() : std::this_thread::yield();
  }
  if (!failed_) return 0;
  ffi::details::SetSafeCallRaised(*failed_);
  failed_.reset();
  return -1;
}

void Team::Serve(Member* member) {
  const LoopsOfThread alone(nullptr);  // a loop within a loop is one piece
  uint32_t seen = 0;
  while (true) {
    AwaitLoop(member, seen);
    if (closing_.load()) return;
    const uint64_t word = word_.load();
    seen = LoopOf(word);
    TakePieces(word);
  }
}

/*! \brief Wait until there is a loop that was not seen, or the team ends. */
void Team::AwaitLoop(Member* member, uint32_t seen) {
  auto has_come = [this, seen] { return LoopOf(word_.load()) != seen || closing_.load(); };
  if (may_spin_) {
    if (member->parker.Spin(kSpinAtRest, has_come)) return;
    auto is_over = [&] { return has_come() || !at_work_.load(std::memory_order_relaxed); };
    member->parker.Spin(kSpinAtWork, is_over);
  }
  member->parker.Await(std::chrono::nanoseconds{0}, has_come);
}

/*! \brief Take pieces of the loop of a word until none is left. */
void Team::TakePieces(uint64_t word) noexcept {
  const uint32_t loop = LoopOf(word);
  word = word_.load();
  while (LoopOf(word) == loop && NextOf(word) < PiecesOf(word)) {
    if (!word_.compare_exchange_weak(word, word + 1)) continue;
    RunPiece(NextOf(word));
    done_.fetch_add(1, std::memory_order_release);
    word = word_.load();
  }
}

void Team::RunPiece(int piece) noexcept {
  const LoopsOfThread alone(nullptr);
  if (loop_(piece, &environment_, data_) != 0) KeepError();
}

/*! \brief Take the calling thread's raised error, for who ran the loop. */
void Team::KeepError() noexcept {
  ffi::Error error = ffi::details::MoveFromSafeCallRaised();
  std::lock_guard<std::mutex> lock(failing_);
  if (!failed_) failed_ = std::move(error);
}

}  // namespace tvm_hetero
