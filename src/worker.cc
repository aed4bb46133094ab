#include "worker.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "device_name.h"
#include "faults.h"
#include "frames.h"
#include "worker_errors.h"

namespace tvm_hetero {
namespace {

constexpr double kNotIdle = std::numeric_limits<double>::quiet_NaN();

bool HasThreadPool() { return ffi::Function::GetGlobal("runtime.config_threadpool").has_value(); }

}  // namespace

Worker::Worker(const Plan& plan, const Program& program, int index, Board* board,
               RequestDesk* desk)
    : plan_(plan),
      self_(plan.workers[index]),
      index_(index),
      instructions_(program.workers[index]),
      program_(program),
      board_(board),
      desk_(desk),
      parker_(&board->parkers[index]),
      idle_since_(kNotIdle),
      functions_(instructions_.size()),
      kernels_(instructions_.size()),
      pools_(plan.slots.size()) {
  jobs_.reserve(board->frames.size());
  for (size_t position = 0; position < instructions_.size(); ++position) {
    int number = instructions_[position].step;
    const StepPlan& step = plan.steps[number];
    if (step.kind == StepKind::kCall) continue;
    if (step.kind == StepKind::kKernels) {
      kernels_[position] = std::make_unique<KernelStep>(plan, number);
    }
    for (int slot : step.outs) {
      Placement placement = plan.IsStaged(slot) ? Placement::kPinned : Placement::kPlain;
      pools_[slot] = std::make_unique<BufferPool>(&allocated_, placement);
    }
  }
}

// ---------------------------------------------------------------------------- the thread

void Worker::Start(Spin spin) {
  spin_ = spin;
  std::promise<void> ready;
  std::future<void> outcome = ready.get_future();
  thread_ = std::thread([this, ready = std::move(ready)]() mutable {
    ThreadMain(std::move(ready));
  });
  outcome.get();
}

void Worker::Restart() {
  Join();
  Start(spin_);
}

void Worker::Join() {
  if (thread_.joinable()) thread_.join();
}

void Worker::ThreadMain(std::promise<void> ready) {
  try {
    SetUpThread();
    SetUpStreams();
    SetUpMemory();
  } catch (const std::exception& error) {
    streams_.clear();
    ready.set_exception(std::make_exception_ptr(
        ffi::Error("RuntimeError", "worker '" + self_.name + "': " + Described(error), "")));
    return;
  }
  ready.set_value();
  // Only std::exception, which all of TVM's are: Python ends a thread that asks for the interpreter
  // at its shutdown by unwinding it, and `catch (...)` would turn that into an abort.
  try {
    Work();
  } catch (const std::exception& error) {
    Die(Described(error));
  }
  streams_.clear();
}

void Worker::SetUpThread() {
  NameThread(self_.name);
  if (!self_.cores.empty()) PinThread(self_.cores);  // throws where one is not there; TVM does not
  std::vector<int> before = AllowedCores();
  std::vector<int> pool = self_.cores;
  // A copy engine runs no kernels, and without cores of one's own there is nothing to divide a
  // kernel over: a pool of one then, which starts no threads.
  if (self_.role == Role::kCopy || pool.empty()) pool = {before.empty() ? 0 : before.front()};
  // The pool belongs to the calling thread, and making it pins the caller too (to core 0 unless
  // told otherwise). So tell it before the first kernel can make it, and pin ourselves afterwards.
  pool_configured_ = ConfigureThreadPool(pool);
  // The other threads of a pool sit on one core each, from the second on; the first is for us.
  PinThread(pool.size() > 1 ? std::vector<int>{pool.front()} : before);
}

/*! \brief Streams of our own on the devices that we work with; the first is that of our device. */
void Worker::SetUpStreams() {
  std::vector<DLDevice> devices{plan_.DeviceOfWorker(index_)};
  for (const Instruction& instruction : instructions_) {
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

/*! \brief All memory that the steps of one batch need; by this thread, so near its core. */
void Worker::SetUpMemory() {
  int64_t bytes = plan_.ScratchOfWorker(index_);
  if (bytes > 0 && !scratch_.defined()) {
    scratch_ = Empty(ffi::ShapeView(&bytes, 1), DLDataType{kDLUInt, 8, 1},
                     plan_.DeviceOfWorker(index_));
  }
  ReserveBuffers(1);
}

/*! \brief See to it that each slot that kernels fill has so many buffers. */
void Worker::ReserveBuffers(int count) {
  if (buffers_reserved_ >= count) return;
  for (size_t i = 0; i < pools_.size(); ++i) {
    const std::optional<TensorPlan>& type = plan_.slots[i].type;
    if (pools_[i] == nullptr || !type) continue;
    int held = program_.slots[i].is_output ? kHeldOutputs : 0;
    pools_[i]->Reserve(count + held, ffi::ShapeView(type->shape.data(), type->shape.size()),
                       type->dtype, plan_.DeviceOfSlot(static_cast<int>(i)));
  }
  buffers_reserved_ = count;
}

void Worker::SetFunction(int step, ffi::Function* function) {
  for (size_t position = 0; position < instructions_.size(); ++position) {
    if (instructions_[position].step == step) std::swap(functions_[position], *function);
  }
}

void Worker::SetLibrary(const ffi::Module& library) {
  for (auto& kernels : kernels_) {
    if (kernels != nullptr) kernels->SetLibrary(library);
  }
}

int Worker::StepWithoutKernels() const {
  for (size_t position = 0; position < instructions_.size(); ++position) {
    bool missing = kernels_[position] != nullptr && !kernels_[position]->ready();
    if (missing) return instructions_[position].step;
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
  } while (AwaitChange());
}

/*! \brief Take the batches that have begun into the list. */
void Worker::Accept() {
  const uint64_t last = board_->announced.load();
  while (accepted_ < last) {
    ++accepted_;
    if (!instructions_.empty()) jobs_.push_back(Job{&board_->FrameOf(accepted_), 0});
  }
}

/*! \brief Whether all that the next step of a batch needs is there, or there is nothing to run. */
bool Worker::IsReady(const Job& job) const {
  const Frame& frame = *job.frame;
  if (frame.skip.load()) return true;
  for (int step : instructions_[job.position].waits_for) {
    if (frame.marks[step].batch.load() != frame.batch) return false;
  }
  return true;
}

/*! \brief Whose next step is ready and of the earliest period (board.h); -1 if none is ready. */
int Worker::FirstReady() const {
  int first = -1;
  uint64_t earliest = std::numeric_limits<uint64_t>::max();
  for (size_t i = 0; i < jobs_.size(); ++i) {
    const uint64_t batch = jobs_[i].frame->batch;
    if (batch >= earliest) break;  // the younger ones are of no earlier period
    const uint64_t period = batch + static_cast<uint64_t>(instructions_[jobs_[i].position].stage);
    if (period >= earliest || !IsReady(jobs_[i])) continue;
    earliest = period;
    first = static_cast<int>(i);
  }
  return first;
}

/*! \brief Wait until there is something to do; false if nothing more will come. */
bool Worker::AwaitChange() {
  if (jobs_.empty()) {
    idle_since_ = kNotIdle;
    auto woken = [this] { return HasNews() || board_->closing.load(); };
    parker_->Await(spin_.between_batches, woken);
    return HasNews() || !board_->closing.load();
  }
  if (std::isnan(idle_since_)) idle_since_ = board_->Now();
  parker_->Await(spin_.in_batch, [this] { return FirstReady() >= 0 || HasNews(); });
  return true;
}

// ---------------------------------------------------------------------------- one step of a batch

void Worker::RunNext(size_t index) {
  Job& job = jobs_[index];
  if (job.frame->skip.load()) return Leave(index);
  MaybeFail(FaultKind::kWorker);
  if (!TryStep(job)) return Leave(index);
  // A step that was cut short has not made what others would read.
  const bool is_whole = !job.frame->skip.load();
  if (is_whole) Announce(job);
  if (is_whole) Release(job);
  if (++job.position == instructions_.size() || !is_whole) Leave(index);
}

/*! \brief Run a step; false if it failed or its batch is late, with everybody told. */
bool Worker::TryStep(const Job& job) {
  const int number = instructions_[job.position].step;
  Span& span = job.frame->record.spans[number];
  const Clock::time_point now = Clock::now();
  if (job.frame->deadline && now >= *job.frame->deadline) {
    desk_->Expire(job.frame);
    return false;
  }
  span.start = std::chrono::duration<double>(now - board_->epoch).count();
  span.waited = std::isnan(idle_since_) ? 0.0 : span.start - idle_since_;
  idle_since_ = kNotIdle;
  try {
    ReserveBuffers(board_->buffers_wanted.load(std::memory_order_relaxed));
    RunStep(plan_.steps[number], job);
  } catch (const std::exception& error) {
    made_.clear();
    desk_->Fail(job.frame, StepError{number, Described(error)});
    return false;
  }
  span.end = board_->Now();
  return true;
}

/*! \brief Mark a step as ended and wake whoever waits for it. */
void Worker::Announce(const Job& job) {
  const Instruction& instruction = instructions_[job.position];
  if (instruction.wakes.empty()) return;  // nobody looks at it
  job.frame->marks[instruction.step].batch.store(job.frame->batch);
  for (int worker : instruction.wakes) board_->parkers[worker].Unpark();
}

/*! \brief Empty the slots of which this step was the last reader. */
void Worker::Release(const Job& job) {
  for (int slot : instructions_[job.position].reads) {
    Slot& place = job.frame->slots[slot];
    // acq_rel: the others' reading happened before the last one's emptying.
    if (place.readers_left.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
    if (!program_.slots[slot].is_output) place.tensor.reset();
  }
}

/*! \brief Be through with a batch; the steps that are left are skipped. */
void Worker::Leave(size_t index) {
  Job job = jobs_[index];
  jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(index));
  Record& record = job.frame->record;
  for (size_t position = job.position; position < instructions_.size(); ++position) {
    const int step = instructions_[position].step;
    record.spans[step] = Span{kNotIdle, kNotIdle, kNotIdle};
    for (size_t i = program_.first_call[step]; i < program_.first_call[step + 1]; ++i) {
      record.kernel_times[i] = kNotIdle;
    }
  }
  if (job.frame->workers_left.fetch_sub(1) == 1) desk_->Finish(job.frame);
}

/*! \brief Let the thread end, with all batches told and left. */
void Worker::Die(const std::string& cause) {
  const std::string message = "worker '" + self_.name + "' died: " + cause;
  desk_->FailAll(message);
  Accept();
  while (!jobs_.empty()) Leave(0);
  desk_->Bury(index_);
}

}  // namespace tvm_hetero
