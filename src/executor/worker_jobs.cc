// A worker at a part of a batch: take its next step, run it, tell everybody, and leave it; whatever fails.
#include <cmath>

#include "executor/worker.h"
#include "executor/worker_errors.h"
#include "support/faults.h"

namespace tvm_hetero {

void Worker::RunNext(size_t index) {
  const Job job = jobs_[index];
  const Progress::View view = ProgressOf(job).Look();
  uint64_t period = 0;
  const Readiness readiness = Look(job, &period);
  if (readiness == Readiness::kGone) {
    jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(index));
  }
  if (readiness != Readiness::kReady) return;
  const bool is_skipped = job.frame->skip.load();
  if (!is_skipped) MaybeFail(FaultKind::kWorker);
  if (!ProgressOf(job).Take(job.batch, view.position)) return;  // somebody was quicker
  held_ = Held{job, view.position};
  if (is_skipped) return Leave();
  RunHeld();
}

/*! \brief Run the step at hand and tell everybody. */
void Worker::RunHeld() {
  if (!TryStep()) return Leave();
  const Job job = held_->job;
  const Part& part = parts_[job.part];
  // A step that was cut short has not made what others would read.
  const bool is_whole = !job.frame->skip.load();
  if (is_whole) Announce();
  if (is_whole) Release();
  if (++held_->position == part.instructions->size() || !is_whole) return Leave();
  ProgressOf(job).Put(job.batch, held_->position);
  held_.reset();
  if (job.part != 0) state_->parkers[part.worker].Unpark();  // the next step is its own again
}

/*! \brief Run the step at hand; false if it failed or its batch is late, with everybody told. */
bool Worker::TryStep() {
  state_->threads[index_].GoHome();
  const Job job = held_->job;
  const int number = At(*held_).step;
  Span& span = job.frame->record.spans[number];
  const Clock::time_point now = Clock::now();
  if (job.frame->deadline && now >= *job.frame->deadline) {
    desk_->Expire(job.frame);
    return false;
  }
  span.start = std::chrono::duration<double>(now - state_->epoch).count();
  span.waited = std::isnan(idle_since_) ? 0.0 : span.start - idle_since_;
  const int planned = plan_.steps[number].worker;
  span.worker = plan_.IsMeeting(planned) ? planned : index_;
  idle_since_ = kNotIdle;
  state_->busy[index_].now.store(true);
  constexpr ThreadTimes kUnwatched{kNotIdle, kNotIdle};
  const bool is_watched = state_->watches_steps.load(std::memory_order_relaxed);
  const ThreadTimes before = is_watched ? clock_->Read() : kUnwatched;
  CallForHelp();
  bool succeeded = true;
  try {
    ReserveBuffers(&parts_[job.part], state_->buffers_wanted.load(std::memory_order_relaxed));
    RunStep();
  } catch (const std::exception& error) {
    made_.clear();
    desk_->Fail(job.frame, StepError{number, Described(error)});
    succeeded = false;
  }
  state_->busy[index_].now.store(false);
  const ThreadTimes after = is_watched ? clock_->Read() : kUnwatched;
  span.on_core = after.on_core - before.on_core;
  span.in_queue = after.in_queue - before.in_queue;
  span.end = state_->Now();
  return succeeded;
}

/*! \brief Wake those that are alike, if there is a step that they could take meanwhile. */
void Worker::CallForHelp() {
  if (parts_.size() == 1 || FirstReady(true) < 0) return;
  for (size_t part = 1; part < parts_.size(); ++part) {
    state_->parkers[parts_[part].worker].Unpark();
  }
}

/*! \brief Mark the step at hand as ended and wake whoever waits for it. */
void Worker::Announce() {
  const Instruction& instruction = At(*held_);
  if (instruction.wakes.empty()) return;  // nobody looks at it
  held_->job.frame->marks[instruction.step].batch.store(held_->job.batch);
  for (int worker : instruction.wakes) state_->parkers[worker].Unpark();
}

/*! \brief Empty the slots of which the step at hand was the last reader. */
void Worker::Release() {
  for (int slot : At(*held_).reads) {
    Slot& place = held_->job.frame->slots[slot];
    // acq_rel: the others' reading happened before the last one's emptying.
    if (place.readers_left.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
    if (!program_.slots[slot].is_output) place.tensor.reset();
  }
}

/*! \brief Be through with the part at hand; the steps that are left are skipped. */
void Worker::Leave() {
  const auto [job, next] = *held_;
  const std::vector<Instruction>& instructions = *parts_[job.part].instructions;
  Record& record = job.frame->record;
  for (size_t position = next; position < instructions.size(); ++position) {
    const int step = instructions[position].step;
    record.spans[step] = Span::Skipped();
    for (size_t i = program_.first_call[step]; i < program_.first_call[step + 1]; ++i) {
      record.kernel_times[i] = kNotIdle;
    }
  }
  held_.reset();
  ProgressOf(job).Put(job.batch, instructions.size());
  // Its owner sleeps while others have its steps; where nothing more comes, nothing else wakes it.
  if (job.part != 0) state_->parkers[parts_[job.part].worker].Unpark();
  if (job.frame->parts_left.fetch_sub(1) == 1) desk_->Finish(job.frame);
}

/*! \brief Let the thread end, with all batches told and left. */
void Worker::Die(const std::string& cause) {
  const std::string message = "worker '" + self_.name + "' died: " + cause;
  desk_->FailAll(message);
  state_->busy[index_].now.store(false);
  if (held_) Leave();
  Accept();
  for (const Job& job : jobs_) {
    if (job.part == 0) Abandon(job);
  }
  jobs_.clear();
  desk_->Bury(index_);
}

/*! \brief Leave a part of one's own, after whoever may be at a step of it. */
void Worker::Abandon(const Job& job) {
  for (;; std::this_thread::yield()) {
    const Progress::View view = ProgressOf(job).Look();
    if (view.batch != job.batch) return;
    if (view.position == parts_[job.part].instructions->size()) return;
    if (view.taken || !ProgressOf(job).Take(job.batch, view.position)) continue;
    held_ = Held{job, view.position};
    return Leave();
  }
}

}  // namespace tvm_hetero
