// What a worker does next: whose step is ready, when it sleeps, when it leaves its core.
#include <algorithm>
#include <cmath>
#include <limits>

#include "executor/worker.h"
#include "memory/workspace.h"

namespace tvm_hetero {

/*! \brief Take the batches that have begun into the list. */
void Worker::Accept() {
  const uint64_t last = state_->announced.load();
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (parts_[part].instructions->empty()) continue;
    for (size_t i = 0; i < state_->frames.size(); ++i) {
      Frame& frame = state_->frames[i];
      const uint64_t batch = frame.parts[parts_[part].worker].Look().batch;
      if (batch == parts_[part].seen[i]) continue;
      parts_[part].seen[i] = batch;
      auto is_younger = [](uint64_t number, const Job& job) { return number < job.batch; };
      auto place = std::upper_bound(jobs_.begin(), jobs_.end(), batch, is_younger);
      jobs_.insert(place, Job{&frame, batch, part});
    }
  }
  accepted_ = last;
}

/*! \brief Whether there is something of its own to do, now or later. */
bool Worker::HasOwn() const {
  return std::any_of(jobs_.begin(), jobs_.end(), [](const Job& job) { return job.part == 0; });
}

/*! \brief Whether a meeting in which it helps has pieces to take. */
bool Worker::HasLoop() const {
  return std::any_of(helped_.begin(), helped_.end(),
                     [](const HelpedBoard& helped) { return helped.board->IsOpen(); });
}

/*! \brief Whether a meeting in which it helps is at a step. */
bool Worker::IsLoopNear() const {
  return std::any_of(helped_.begin(), helped_.end(),
                     [](const HelpedBoard& helped) { return helped.board->at_work(); });
}

void Worker::HelpWithLoops() {
  for (const HelpedBoard& helped : helped_) helped.board->Help(helped.number);
}

/*! \brief Whether a job's next step can be run, or the job be put away; the period of the step. */
Worker::Readiness Worker::Look(const Job& job, uint64_t* period) const {
  const Part& part = parts_[job.part];
  const Progress::View view = ProgressOf(job).Look();
  const bool is_over = view.position == part.instructions->size();
  if (view.batch != job.batch || is_over) return Readiness::kGone;
  if (view.taken) return Readiness::kWaits;
  const Instruction& next = (*part.instructions)[view.position];
  if (job.part != 0 && plan_.IsMeeting(plan_.steps[next.step].worker)) return Readiness::kWaits;
  *period = job.batch + static_cast<uint64_t>(next.stage);
  if (job.frame->skip.load()) return job.part == 0 ? Readiness::kReady : Readiness::kWaits;
  if (IsHeldUp()) return Readiness::kWaits;  // what is skipped runs nothing, so it needs no core
  for (int step : next.waits_for) {
    if (job.frame->marks[step].batch.load() != job.batch) return Readiness::kWaits;
  }
  return Readiness::kReady;
}

/*! \brief A job to go on with, if possible one of its own; -1 if there is none. */
int Worker::FirstReady() const {
  const int own = FirstReady(true);
  const bool is_alone = parts_.size() == 1 || state_->departure->HasLeft(index_);
  return own >= 0 || is_alone ? own : FirstReady(false);
}

/*! \brief Whose next step is ready and of the earliest period (state.h), or who is gone. */
int Worker::FirstReady(bool own) const {
  int first = -1;
  uint64_t earliest = std::numeric_limits<uint64_t>::max();
  for (size_t i = 0; i < jobs_.size(); ++i) {
    const Job& job = jobs_[i];
    if (job.batch >= earliest) break;  // the younger ones are of no earlier period
    if ((job.part == 0) != own) continue;
    uint64_t period = 0;
    const Readiness readiness = Look(job, &period);
    if (readiness == Readiness::kGone) return static_cast<int>(i);
    if (readiness == Readiness::kWaits || period >= earliest) continue;
    // One who is not at a step is about to take it himself.
    if (!own && !state_->busy[parts_[job.part].worker].now.load()) continue;
    earliest = period;
    first = static_cast<int>(i);
  }
  return first;
}

/*! \brief How long to spin; not at all on the core on which the caller wants to go on. */
Parker::Duration Worker::SpinBetweenBatches() const {
  const int core = state_->caller_core.load(std::memory_order_relaxed);
  const int home = state_->threads[index_].core();  // which it may have exchanged
  const std::vector<int>& planned = self_.cores;
  const bool is_shared =
      home < 0 ? std::find(planned.begin(), planned.end(), core) != planned.end() : home == core;
  return is_shared ? Parker::Duration{0} : spin_.between_batches;
}

/*! \brief Whether a worker of the executor before this one has the core still. */
bool Worker::IsHeldUp() const {
  if (before_ == nullptr) return false;
  const int home = state_->threads[index_].core();  // which it may have exchanged
  if (home >= 0 && self_.cores.size() == 1) return before_->Holds(home);
  return std::any_of(self_.cores.begin(), self_.cores.end(),
                     [this](int core) { return before_->Holds(core); });
}

/*! \brief Sleep while a peer has work, and see to it now and then that it has a core. */
template <typename HasChanged>
void Worker::AwaitPeers(HasChanged has_changed) {
  auto works = [this](const Peer& peer) { return state_->busy[peer.worker].now.load(); };
  while (!state_->retired.load() && std::any_of(peers_.begin(), peers_.end(), works)) {
    if (parker_->AwaitFor(CoreWatch::kAsleep, has_changed)) return;
    for (Peer& peer : peers_) peer.watch.LookNow(works(peer));
  }
}

/*! \brief Whether it has done its part of everything, and nothing more comes. */
bool Worker::MayLeave() const {
  return state_->retired.load() && !HasNews() && !HasOwn() && !state_->departure->HasLeft(index_);
}

/*! \brief Leave the core to the executor that follows. */
void Worker::LeaveCore() {
  if (!state_->departure->HasLeft(index_)) state_->departure->Leave(index_);
}

/*! \brief The same by its own thread, and what kernels had there with it. */
void Worker::HandOverCore() {
  GiveUpWorkspaces();
  LeaveCore();
}

/*! \brief Wait until there is something to do; false if nothing more will come. */
bool Worker::AwaitChange() {
  if (MayLeave()) HandOverCore();
  PinnedThread& thread = state_->threads[index_];
  thread.GoHome();
  const bool has_own = HasOwn();
  if (!has_own) idle_since_ = kNotIdle;
  if (has_own && std::isnan(idle_since_)) idle_since_ = state_->Now();
  if (!has_own) Rest();
  auto has_changed = [this, has_own, &thread] {
    return FirstReady() >= 0 || HasNews() || HasLoop() || MayLeave() || thread.IsAway() ||
           (!has_own && state_->closing.load());
  };
  for (Peer& peer : peers_) peer.watch.Reset();
  if (!has_own && IsLoopNear()) {
    Parker::Spin(spin_.in_batch, [&] {
      WatchPeers();
      return has_changed() || !IsLoopNear();
    });
  }
  const Parker::Duration spin = has_own ? spin_.in_batch : SpinBetweenBatches();
  const bool was_held_up = IsHeldUp();
  const bool has_found = Parker::Spin(was_held_up ? Parker::Duration{0} : spin, [&] {
    if (has_own) WatchPeers();
    return has_changed();
  });
  if (!has_found && has_own && spin.count() > 0 && !was_held_up) AwaitPeers(has_changed);
  parker_->Await(Parker::Duration{0}, has_changed);
  // Who waits for the last results of the executor before was woken with us, and wants our core.
  if (was_held_up && !IsHeldUp()) std::this_thread::yield();
  return has_own || HasNews() || !state_->closing.load();
}

/*! \brief Let those who help with its loops sleep. */
void Worker::Rest() {
  if (team_ != nullptr) team_->Rest();
  for (LoopBoard* board : led_) board->Rest();
}

}  // namespace tvm_hetero
