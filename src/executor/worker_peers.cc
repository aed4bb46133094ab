// Whom a worker exchanges cores with (core_watch.h): some of those who are alike, as it waits for them.
#include <algorithm>
#include <utility>
#include <vector>

#include "executor/worker.h"
#include "support/device_name.h"

namespace tvm_hetero {
namespace {

constexpr size_t kMostPeers = 3;

}  // namespace

/*!
 * \brief Those who are alike, each alone on one core: for any other a core may be of another kind.
 *
 * Some are enough to look after each: the next ones in a ring.
 */
void Worker::AddPeers() {
  const std::vector<int> found = plan_.PartsOf(index_);  // this one first
  if (!IsAloneOnCore(index_)) return;
  for (size_t i = 1; i < found.size() && peers_.size() < kMostPeers; ++i) {
    const auto after = std::upper_bound(found.begin() + 1, found.end(), index_);
    const auto start = static_cast<size_t>(after - found.begin() - 1);
    const int peer = found[1 + (start + i - 1) % (found.size() - 1)];
    if (!IsAloneOnCore(peer)) continue;
    peers_.push_back(Peer{peer, CoreWatch(&state_->threads[index_], &state_->threads[peer])});
  }
}

/*! \brief Whether a worker is pinned to one core, which no other thread of the plan has. */
bool Worker::IsAloneOnCore(int worker) const {
  const bool is_pinned = plan_.workers[worker].cores.size() == 1;
  return is_pinned && IsCpu(plan_.DeviceOfWorker(worker)) && plan_.IsAloneOnCores(worker);
}

/*! \brief Whether a worker could run a step of its own now. */
bool Worker::HasReadyStep(int worker) const {
  return std::any_of(state_->frames.begin(), state_->frames.end(), [&](const Frame& frame) {
    const Progress::View view = frame.parts[worker].Look();
    const std::vector<Instruction>& instructions = program_.workers[worker];
    if (view.taken || view.position >= instructions.size()) return false;
    const std::vector<int>& awaited = instructions[view.position].waits_for;
    return std::all_of(awaited.begin(), awaited.end(), [&](int step) {
      return frame.marks[step].batch.load() == view.batch;
    });
  });
}

/*!
 * \brief Once a turn while it spins: exchange cores with who has work and no core.
 *
 * Not while one plan takes over from another: cores are about to be free.
 */
void Worker::WatchPeers() {
  if (state_->retired.load(std::memory_order_relaxed) || IsHeldUp()) return;
  for (Peer& peer : peers_) {
    peer.watch.Look([this, &peer] {
      return state_->busy[peer.worker].now.load() || HasReadyStep(peer.worker);
    });
  }
}

}  // namespace tvm_hetero
