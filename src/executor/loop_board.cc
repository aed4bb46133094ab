#include "executor/loop_board.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace tvm_hetero {
namespace {

// More pieces than threads: the last ones to end wait for a part of a share only. Each begins anew
// with what a loop does before its first turn, so not too many.
constexpr int kPiecesPerThread = 4;
constexpr int kMostPieces = 0xffff;

// The word: 32 bits count the loops, 16 are the number of pieces, 16 the next piece.
uint64_t WordOf(uint32_t loop, int pieces) {
  return (static_cast<uint64_t>(loop) << 32) | (static_cast<uint64_t>(pieces) << 16);
}
uint32_t LoopOf(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
int PiecesOf(uint64_t word) { return static_cast<int>((word >> 16) & 0xffff); }
int NextOf(uint64_t word) { return static_cast<int>(word & 0xffff); }

}  // namespace

int LoopBoard::Run(ParallelLoop loop, void* data, int pieces) noexcept {
  if (pieces <= 0) pieces = static_cast<int>(helpers_.size() + 1) * kPiecesPerThread;
  if (helpers_.empty()) pieces = 1;
  pieces = std::min(pieces, kMostPieces);
  loop_ = loop;
  data_ = data;
  environment_.pieces = pieces;
  done_.store(0, std::memory_order_relaxed);
  at_work_.store(true, std::memory_order_relaxed);
  const uint64_t word = WordOf(LoopOf(word_.load(std::memory_order_relaxed)) + 1, pieces);
  word_.store(word);
  for (Parker* helper : helpers_) helper->Unpark();
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

bool LoopBoard::IsOpen() const {
  const uint64_t word = word_.load();
  return NextOf(word) < PiecesOf(word);
}

void LoopBoard::Help() noexcept { TakePieces(word_.load()); }

/*! \brief Take pieces of the loop of a word until none is left. */
void LoopBoard::TakePieces(uint64_t word) noexcept {
  const uint32_t loop = LoopOf(word);
  word = word_.load();
  while (LoopOf(word) == loop && NextOf(word) < PiecesOf(word)) {
    if (!word_.compare_exchange_weak(word, word + 1)) continue;
    RunPiece(NextOf(word));
    done_.fetch_add(1, std::memory_order_release);
    word = word_.load();
  }
}

void LoopBoard::RunPiece(int piece) noexcept {
  const LoopsOfThread alone(nullptr);  // a loop within a loop is one piece
  if (loop_(piece, &environment_, data_) != 0) KeepError();
}

/*! \brief Take the calling thread's raised error, for who ran the loop. */
void LoopBoard::KeepError() noexcept {
  ffi::Error error = ffi::details::MoveFromSafeCallRaised();
  std::lock_guard<std::mutex> lock(failing_);
  if (!failed_) failed_ = std::move(error);
}

}  // namespace tvm_hetero
