#include "executor/loop_board.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "executor/core_watch.h"
#include "executor/thread_setup.h"

namespace tvm_hetero {
namespace {

// More pieces than threads: the last ones to end wait for a part of a share only. Each begins anew
// with what a loop does before its first turn, so not too many.
constexpr int kPiecesPerThread = 4;
constexpr int kMostPieces = 0xffff;

// The word: 32 bits count the loops, 16 are the end of the share, 16 its next piece.
uint64_t WordOf(uint32_t loop, int next, int end) {
  return (static_cast<uint64_t>(loop) << 32) | (static_cast<uint64_t>(end) << 16) |
         static_cast<uint64_t>(next);
}
uint32_t LoopOf(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
int EndOf(uint64_t word) { return static_cast<int>((word >> 16) & 0xffff); }
int NextOf(uint64_t word) { return static_cast<int>(word & 0xffff); }

}  // namespace

size_t LoopBoard::AddHelper(Parker* helper, PinnedThread* thread) {
  shares_.emplace_back();
  watches_.emplace_back();
  Seat& seat = seats_.emplace_back();
  seat.parker = helper;
  seat.thread = thread;
  return seats_.size() - 1;
}

int LoopBoard::Run(ParallelLoop loop, void* data, int pieces) noexcept {
  const auto threads = static_cast<int>(shares_.size());
  if (pieces <= 0) pieces = threads * kPiecesPerThread;
  if (threads == 1) pieces = 1;
  pieces = std::min(pieces, kMostPieces);
  loop_ = loop;
  data_ = data;
  environment_.pieces = pieces;
  done_.store(0, std::memory_order_relaxed);
  at_work_.store(true, std::memory_order_relaxed);
  ++loops_;
  for (int i = 0; i < threads; ++i) {
    shares_[i].word.store(WordOf(loops_, pieces * i / threads, pieces * (i + 1) / threads));
  }
  for (size_t i = 1; i < seats_.size(); ++i) seats_[i].parker->Unpark();
  TakePieces(0);
  AwaitPieces(pieces);
  if (!failed_) return 0;
  ffi::details::SetSafeCallRaised(*failed_);
  failed_.reset();
  return -1;
}

// ---------------------------------------------------------------------------- threads without a core

/*! \brief Wait for the pieces that others have. */
void LoopBoard::AwaitPieces(int pieces) noexcept {
  for (LackWatch& watch : watches_) watch.Reset();
  while (!SpinUntilDone(pieces)) {
    // Where nobody can be pulled over, whoever has a piece may want this very core.
    if (!FreePieces(pieces)) std::this_thread::yield();
  }
}

/*! \brief Whether all pieces have ended; waits for that for a while. */
bool LoopBoard::SpinUntilDone(int pieces) const noexcept {
  return Parker::Spin(LackWatch::kPatience,
                      [&] { return done_.load(std::memory_order_acquire) >= pieces; });
}

/*! \brief Pull helpers over that may hold a piece and have no core, and let them run; whether any. */
bool LoopBoard::FreePieces(int pieces) noexcept {
  bool is_any = false;
  for (size_t i = 1; i < seats_.size(); ++i) {
    const Seat& seat = seats_[i];
    if (seat.thread == nullptr || !seat.is_helping.load()) {
      watches_[i].Reset();
    } else if (watches_[i].Lacks(*seat.thread) && seat.thread->PullTo(CurrentCore())) {
      LetRun(seat, pieces);
      is_any = true;
    }
  }
  return is_any;
}

/*! \brief Give this core to one who was pulled here, until it holds no piece. */
void LoopBoard::LetRun(const Seat& seat, int pieces) const noexcept {
  while (seat.is_helping.load() && done_.load(std::memory_order_acquire) < pieces) {
    std::this_thread::yield();
  }
  seat.thread->SendHome();
}

// ---------------------------------------------------------------------------- pieces

bool LoopBoard::IsOpen() const {
  return std::any_of(shares_.begin(), shares_.end(), [](const Share& share) {
    const uint64_t word = share.word.load();
    return NextOf(word) < EndOf(word);
  });
}

void LoopBoard::Help(size_t self) noexcept {
  Seat& seat = seats_[self];
  if (seat.thread != nullptr) seat.thread->GoHome();
  seat.is_helping.store(true);
  TakePieces(self);
  seat.is_helping.store(false);
  if (seat.thread != nullptr) seat.thread->GoHome();
}

void LoopBoard::TakePieces(size_t self) noexcept {
  for (int piece; (piece = TakeFirst(self)) >= 0;) RunPiece(piece);
  for (size_t step = 1; step < shares_.size(); ++step) {
    const size_t other = (self + step) % shares_.size();
    for (int piece; (piece = TakeLast(other)) >= 0;) RunPiece(piece);
  }
}

/*! \brief Take the first piece that is left of a share; -1 if there is none. */
int LoopBoard::TakeFirst(size_t of) noexcept {
  std::atomic<uint64_t>& share = shares_[of].word;
  uint64_t word = share.load();
  while (NextOf(word) < EndOf(word)) {
    if (share.compare_exchange_weak(word, word + 1)) return NextOf(word);
  }
  return -1;
}

/*! \brief Take the last piece that is left of a share; -1 if there is none. */
int LoopBoard::TakeLast(size_t of) noexcept {
  std::atomic<uint64_t>& share = shares_[of].word;
  uint64_t word = share.load();
  while (NextOf(word) < EndOf(word)) {
    const uint64_t less = WordOf(LoopOf(word), NextOf(word), EndOf(word) - 1);
    if (share.compare_exchange_weak(word, less)) return EndOf(word) - 1;
  }
  return -1;
}

void LoopBoard::RunPiece(int piece) noexcept {
  const LoopsOfThread alone(nullptr);  // a loop within a loop is one piece
  if (loop_(piece, &environment_, data_) != 0) KeepError();
  done_.fetch_add(1, std::memory_order_release);
}

/*! \brief Take the calling thread's raised error, for who ran the loop. */
void LoopBoard::KeepError() noexcept {
  ffi::Error error = ffi::details::MoveFromSafeCallRaised();
  std::lock_guard<std::mutex> lock(failing_);
  if (!failed_) failed_ = std::move(error);
}

}  // namespace tvm_hetero
