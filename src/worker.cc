#include "worker.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/error.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "device_name.h"

namespace tvm_hetero {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/*! \brief An exception's text; an ffi error says its kind too ("ZeroDivisionError: ..."). */
std::string Described(const std::exception& error) {
  const auto* typed = dynamic_cast<const ffi::Error*>(&error);
  return typed == nullptr ? error.what() : typed->kind() + ": " + typed->message();
}

[[noreturn]] void RefuseResult(const ffi::Any& result, size_t outs) {
  TVM_FFI_THROW(TypeError) << "the function returned " << result.GetTypeKey() << ", expected "
                           << (outs == 1 ? "a tensor or an array of 1 tensor"
                                         : "an array of " + std::to_string(outs) + " tensors");
  TVM_FFI_UNREACHABLE();
}

}  // namespace

Worker::Worker(const Plan& plan, const Program& program, int index, Board* board)
    : plan_(plan),
      self_(plan.workers[index]),
      instructions_(program.run[index]),
      pipelined_(program.stream[index]),
      slot_uses_(program.slots),
      board_(board),
      parker_(&board->parkers[index]),
      functions_(instructions_.size()),
      spans_(instructions_.size(), Span{kNaN, kNaN}),
      frame_(&board->home) {}

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

void Worker::Join() {
  if (thread_.joinable()) thread_.join();
}

void Worker::SetFunction(size_t position, ffi::Function function) {
  functions_[position] = std::move(function);
}

std::optional<StepError> Worker::TakeError() { return std::exchange(error_, std::nullopt); }

void Worker::ThreadMain(std::promise<void> ready) {
  try {
    SetUpThread();
    stream_.emplace(plan_.devices[self_.device].device);
  } catch (const std::exception& error) {
    ready.set_exception(std::make_exception_ptr(
        ffi::Error("RuntimeError", "worker '" + self_.name + "': " + Described(error), "")));
    return;
  }
  ready.set_value();
  uint64_t run = 0;
  while (true) {
    parker_->Await(spin_.between_runs, [&] { return board_->run.load() != run || board_->closing.load(); });
    if (board_->closing.load()) break;
    run = board_->run.load();
    if (!pool_configured_) SetUpThread();  // TVM was loaded after this thread had started
    if (board_->streaming) {
      RunStream();
    } else {
      RunAll(run);
    }
    LeaveRun();
  }
  stream_.reset();
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

// ---------------------------------------------------------------------------- one run

void Worker::RunAll(uint64_t run) {
  frame_ = &board_->home;
  for (size_t position = 0; position < instructions_.size(); ++position) {
    const Instruction& instruction = instructions_[position];
    if (!WaitForProducers(instruction, run) || !TryStep(position, &spans_[position])) {
      spans_[position] = Span{kNaN, kNaN};
      continue;
    }
    Announce(instruction, run);
    Release(instruction);
  }
}

void Worker::LeaveRun() {
  if (board_->unfinished.fetch_sub(1) == 1) board_->driver.Unpark();
}

/*! \brief Wait until all in-slots are full; false if the run has failed, and nothing may be read. */
bool Worker::WaitForProducers(const Instruction& instruction, uint64_t run) {
  for (int step : instruction.waits_for) {
    // In a stream the other worker may be some batches ahead.
    const std::atomic<uint64_t>& mark = board_->marks[step].run;
    parker_->Await(spin_.in_run, [&] { return mark.load() >= run || board_->failed.load(); });
  }
  return !board_->failed.load();
}

/*! \brief Run a step; false if it failed, with everybody told. */
bool Worker::TryStep(size_t position, Span* span) {
  const StepPlan& step = plan_.steps[instructions_[position].step];
  span->start = Now();
  // Only std::exception, which all of TVM's are: Python ends a thread that asks for the interpreter
  // at its shutdown by unwinding it, and `catch (...)` would turn that into an abort.
  try {
    if (step.kind == StepKind::kCopy) {
      Copy(step);
    } else {
      Call(step, functions_[position]);
    }
  } catch (const std::exception& error) {
    error_ = StepError{instructions_[position].step, Described(error)};
    board_->failed.store(true);
    board_->UnparkWorkers();
    return false;
  }
  span->end = Now();
  return true;
}

/*! \brief Mark a step as ended and wake whoever waits for it. */
void Worker::Announce(const Instruction& instruction, uint64_t run) {
  std::atomic<uint64_t>& mark = board_->marks[instruction.step].run;
  if (instruction.wakes.empty()) return;  // nobody looks at it
  mark.store(run);
  for (int worker : instruction.wakes) board_->parkers[worker].Unpark();
}

/*! \brief Empty the slots of which this step was the last reader. */
void Worker::Release(const Instruction& instruction) {
  for (int slot : instruction.reads) {
    Slot& place = frame_->slots[slot];
    // acq_rel: the others' reading happened before the last one's emptying.
    if (place.readers_left.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
    if (!slot_uses_[slot].is_output) place.tensor.reset();
  }
}

// ---------------------------------------------------------------------------- one stream

void Worker::RunStream() {
  std::fill(spans_.begin(), spans_.end(), Span{kNaN, kNaN});
  if (pipelined_.empty()) return;
  uint64_t period = board_->first_batch;
  while (AwaitPeriod(period) && RunPeriod(period)) ++period;
}

/*! \brief Wait until a period's batch is there; false if the stream is to end. */
bool Worker::AwaitPeriod(uint64_t period) {
  parker_->Await(spin_.between_runs,
                 [&] { return board_->announced.load() > period || board_->failed.load(); });
  return !board_->failed.load();
}

/*! \brief Run each step for the batch whose turn it is; false if the stream is to end. */
bool Worker::RunPeriod(uint64_t period) {
  // Times are kept of periods in which batches still come in, not of those in which the pipeline
  // empties: the last of them is what trace() tells of.
  const bool traced = !IsEmpty(period);
  Span untold;
  for (size_t position = 0; position < pipelined_.size(); ++position) {
    const Instruction& instruction = pipelined_[position];
    const uint64_t batch = period - instruction.stage;
    if (!WaitForProducers(instruction, batch)) return false;
    if (IsEmpty(batch)) {
      Announce(instruction, batch);
    } else {
      frame_ = &board_->FrameOf(batch);
      if (!TryStep(position, traced ? &spans_[position] : &untold)) {
        error_->batch = batch - board_->first_batch;
        return false;
      }
      Announce(instruction, batch);
      Release(instruction);
    }
    if (instruction.ends_batch) EndBatch(batch);
  }
  return true;
}

/*! \brief Whether there is nothing to do for a batch; so for those 'before' the first one. */
bool Worker::IsEmpty(uint64_t batch) const {
  return batch < board_->first_batch || board_->FrameOf(batch).empty;
}

/*! \brief This worker is through with a batch; the last one gives its frame to the driver. */
void Worker::EndBatch(uint64_t batch) {
  if (batch < board_->first_batch) return;
  Frame& frame = board_->FrameOf(batch);
  if (frame.workers_left.fetch_sub(1) != 1) return;
  frame.end = Now();
  frame.done.store(batch);
  board_->driver.Unpark();
}

// ---------------------------------------------------------------------------- one step

/*! \brief The tensor in a slot that a step reads; constants are the same for all batches. */
const ffi::Any& Worker::In(int slot) const {
  const Frame& frame = slot_uses_[slot].is_constant ? board_->home : *frame_;
  return frame.slots[slot].tensor;
}

void Worker::Call(const StepPlan& step, const ffi::Function& function) {
  arguments_.clear();
  for (int slot : step.ins) arguments_.emplace_back(In(slot));
  ffi::Any result;
  function.CallPacked(arguments_.data(), static_cast<int32_t>(arguments_.size()), &result);
  stream_->Synchronize();

  size_t outs = step.outs.size();
  if (outs == 0) return;  // called for its effect
  if (result.type_index() == ffi::TypeIndex::kTVMFFITensor) {
    if (outs != 1) RefuseResult(result, outs);
    Fill(step.outs[0], std::move(result));
    return;
  }
  auto tensors = result.as<ffi::Array<ffi::Any>>();
  if (!tensors.has_value()) RefuseResult(result, outs);
  if (tensors->size() != outs) {
    TVM_FFI_THROW(ValueError) << "the function returned " << tensors->size()
                              << " tensors, expected " << outs;
  }
  for (size_t i = 0; i < outs; ++i) Fill(step.outs[i], (*tensors)[i]);
}

void Worker::Copy(const StepPlan& step) {
  auto from = In(step.ins[0]).cast<ffi::Tensor>();
  ffi::Tensor to = buffers_.Take(from, plan_.devices[step.to_device].device);
  CopyTensor(from, to);
  stream_->Synchronize();
  Fill(step.outs[0], ffi::Any(std::move(to)));
}

void Worker::Fill(int slot, ffi::Any tensor) {
  if (tensor.type_index() != ffi::TypeIndex::kTVMFFITensor) {
    TVM_FFI_THROW(TypeError) << "the result for slot '" << plan_.slots[slot].name << "' is "
                             << tensor.GetTypeKey() << ", expected a tensor";
  }
  DLDevice device = tensor.as<ffi::TensorObj>()->device;
  if (!SameDevice(device, plan_.DeviceOfSlot(slot))) {
    TVM_FFI_THROW(ValueError) << "the result for slot '" << plan_.slots[slot].name << "' is on "
                              << DeviceName(device) << ", expected "
                              << DeviceName(plan_.DeviceOfSlot(slot));
  }
  const SlotUse& use = slot_uses_[slot];
  if (use.readers == 0 && !use.is_output) return;  // not needed: free it now
  frame_->slots[slot].readers_left.store(use.readers, std::memory_order_relaxed);
  frame_->slots[slot].tensor = std::move(tensor);
}

double Worker::Now() const {
  return std::chrono::duration<double>(Clock::now() - board_->start).count();
}

}  // namespace tvm_hetero
