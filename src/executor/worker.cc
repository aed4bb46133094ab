#include "executor/worker.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "executor/frames.h"
#include "executor/parallel_loops.h"
#include "executor/thread_setup.h"
#include "executor/worker_errors.h"
#include "memory/host_memory.h"
#include "memory/workspace.h"
#include "support/device_name.h"
#include "support/faults.h"
#include "support/pace.h"

namespace tvm_hetero {
namespace {

constexpr double kNotIdle = std::numeric_limits<double>::quiet_NaN();
constexpr ThreadTimes kUnwatched{kNotIdle, kNotIdle};

bool HasThreadPool() { return ffi::Function::GetGlobal("runtime.config_threadpool").has_value(); }

}  // namespace

Worker::Worker(const Plan& plan, const Program& program, int index, ExecutorState* state,
               RequestDesk* desk, const Departure* before)
    : plan_(plan),
      self_(plan.workers[index]),
      index_(index),
      program_(program),
      state_(state),
      desk_(desk),
      parker_(&state->parkers[index]),
      before_(before),
      idle_since_(kNotIdle) {
  for (int worker : plan.PartsOf(index)) AddPart(worker);
  for (size_t meeting = 0; meeting < plan.workers.size(); ++meeting) {
    const std::vector<int>& threads = plan.workers[meeting].threads;
    const auto place = std::find(threads.begin(), threads.end(), index);
    if (place == threads.end()) continue;
    LoopBoard* board = state->boards[meeting].get();
    const auto number = static_cast<size_t>(place - threads.begin());
    if (number == 0) {
      led_.push_back(board);
    } else {
      helped_.push_back(HelpedBoard{board, number});
    }
  }
  AddPeers();
  jobs_.reserve(state->frames.size() * parts_.size());
}

/*! \brief Get ready for the steps of a worker. */
void Worker::AddPart(int worker) {
  const std::vector<Instruction>& instructions = program_.workers[worker];
  Part part{worker, &instructions, {}, {}, std::vector<uint64_t>(state_->frames.size()), 0};
  part.functions.resize(instructions.size());
  part.kernels.resize(instructions.size());
  for (size_t position = 0; position < instructions.size(); ++position) {
    const int step = instructions[position].step;
    if (plan_.steps[step].kind != StepKind::kKernels) continue;
    part.kernels[position] = std::make_unique<KernelStep>(plan_, step);
  }
  parts_.push_back(std::move(part));
}

// ---------------------------------------------------------------------------- the thread

void Worker::Start(Spin spin) {
  spin_ = spin;
  state_->departure->Stay(index_);
  // An error is a text here: of an exception that two threads hold the last one would free it, and
  // what the library does for that the thread sanitizer does not see.
  std::promise<std::string> ready;
  std::future<std::string> outcome = ready.get_future();
  try {
    thread_ = std::thread([this, ready = std::move(ready)]() mutable {
      ThreadMain(std::move(ready));
    });
    const std::string failure = outcome.get();
    if (!failure.empty()) throw ffi::Error("RuntimeError", failure, "");
  } catch (...) {
    LeaveCore();  // nobody is there to do so later
    throw;
  }
}

void Worker::Restart() {
  Join();
  Start(spin_);
}

void Worker::Join() {
  if (thread_.joinable()) thread_.join();
}

void Worker::ThreadMain(std::promise<std::string> ready) {
  try {
    MaybeFail(FaultKind::kWorker);
    SetUpThread();
    SetUpTeam();
    SetUpStreams();
    SetUpMemory();
  } catch (const std::exception& error) {
    streams_.clear();
    state_->threads[index_].Leave();
    ready.set_value("worker '" + self_.name + "': " + Described(error));
    return;
  }
  ready.set_value("");
  // Only std::exception, which all of TVM's are: Python ends a thread that asks for the interpreter
  // at its shutdown by unwinding it, and `catch (...)` would turn that into an abort.
  try {
    const LoopsOfThread ours(team_.get());
    Work();
  } catch (const std::exception& error) {
    Die(Described(error));
  }
  HandOverCore();
  streams_.clear();
  team_.reset();
  state_->threads[index_].Leave();
}

void Worker::SetUpThread() {
  NameThread(self_.name);
  clock_.emplace();
  if (!self_.cores.empty()) PinThread(self_.cores);  // throws where one is not there; TVM does not
  const std::vector<int> before = AllowedCores();
  // Loops of kernels are the team's. TVM's pool, which belongs to the calling thread, is made by what
  // else of TVM divides its work: one of its own, that starts no threads. Making it pins the caller
  // (to core 0 unless told otherwise), so tell it before that, and pin ourselves afterwards.
  pool_configured_ = ConfigureThreadPool({before.empty() ? 0 : before.front()});
  std::vector<int> cores = HasTeam() ? std::vector<int>{self_.cores.front()} : before;
  PinnedThread& thread = state_->threads[index_];
  const bool is_pinned = cores.size() == 1 && !self_.cores.empty();
  if (is_pinned && thread.core() >= 0) cores = {thread.core()};  // which it may have exchanged
  PinThread(cores);
  if (is_pinned) thread.Settle(cores.front());
}

/*! \brief Whether kernels may use more than one core: a copy engine runs none. */
bool Worker::HasTeam() const { return self_.role != Role::kCopy && self_.cores.size() > 1; }

void Worker::SetUpTeam() {
  if (HasTeam()) team_ = std::make_unique<Team>(self_.name, self_.cores, spin_.in_batch.count() > 0,
                                          &state_->threads[index_], &state_->busy[index_].now);
}

/*! \brief Streams of our own on the devices that we work with; the first is that of our device. */
void Worker::SetUpStreams() {
  std::vector<DLDevice> devices{plan_.DeviceOfWorker(index_)};
  for (const Instruction& instruction : *parts_.front().instructions) {
    const StepPlan& step = plan_.steps[instruction.step];
    if (step.kind != StepKind::kCopy) continue;
    devices.push_back(plan_.DeviceOfSlot(step.ins[0]));
    devices.push_back(plan_.devices[step.to_device].device);
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    auto is_it = [&](DLDevice other) { return SameDevice(other, devices[i]); };
    auto end = devices.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::none_of(devices.begin(), end, is_it)) streams_.emplace_back(devices[i]);
  }
}

/*!
 * \brief All memory that the steps of the batches in flight need; by this thread, so near its core.
 *
 * Who takes over from another executor has the core from it, so not too much of that at a time.
 */
void Worker::SetUpMemory() {
  const bool is_beside = IsHeldUp();
  Pace pace(is_beside);
  const PagesInPieces in_pieces(is_beside ? &pace : nullptr);
  int64_t bytes = plan_.ScratchOfWorker(index_);
  if (bytes > 0 && !scratch_.defined()) {
    scratch_ = Empty(ffi::ShapeView(&bytes, 1), DLDataType{kDLUInt, 8, 1},
                     plan_.DeviceOfWorker(index_));
  }
  ReserveBuffers(&parts_.front(), state_->buffers_wanted.load(std::memory_order_relaxed));
}

/*! \brief See to it that each slot that a part's kernels fill has so many buffers. */
void Worker::ReserveBuffers(Part* part, int count) {
  if (part->buffers_reserved >= count) return;
  for (const Instruction& instruction : *part->instructions) {
    for (int slot : plan_.steps[instruction.step].outs) {
      const std::optional<TensorPlan>& type = plan_.slots[slot].type;
      if (state_->pools[slot] == nullptr || !type) continue;
      int held = program_.slots[slot].is_output ? kHeldOutputs : 0;
      ffi::ShapeView shape(type->shape.data(), type->shape.size());
      state_->pools[slot]->Reserve(count + held, shape, type->dtype, plan_.DeviceOfSlot(slot));
    }
  }
  part->buffers_reserved = count;
}

void Worker::SetFunction(int step, ffi::Function* function) {
  for (Part& part : parts_) {
    for (size_t position = 0; position < part.functions.size(); ++position) {
      if ((*part.instructions)[position].step != step) continue;
      std::swap(part.functions[position], *function);
    }
  }
}

void Worker::SetLibrary(int worker, const ffi::Module& library) {
  for (Part& part : parts_) {
    for (size_t position = 0; position < part.kernels.size(); ++position) {
      const int step = (*part.instructions)[position].step;
      if (plan_.steps[step].worker != worker) continue;
      if (part.kernels[position] != nullptr) part.kernels[position]->SetLibrary(library);
    }
  }
}

int Worker::StepWithoutKernels() const {
  const Part& own = parts_.front();
  for (size_t position = 0; position < own.kernels.size(); ++position) {
    bool missing = own.kernels[position] != nullptr && !own.kernels[position]->ready();
    if (missing) return (*own.instructions)[position].step;
  }
  return -1;
}

// ---------------------------------------------------------------------------- what to do next

void Worker::Work() {
  do {
    if (!pool_configured_ && HasThreadPool()) SetUpThread();  // TVM was loaded after our start
    if (HasNews()) Accept();
    for (int job; (job = FirstReady()) >= 0;) {
      RunNext(static_cast<size_t>(job));
      if (HasNews()) Accept();
    }
    HelpWithLoops();
  } while (AwaitChange());
}

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
  if (home >= 0) return before_->Holds(home);
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

// ---------------------------------------------------------------------------- one step of a batch

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
