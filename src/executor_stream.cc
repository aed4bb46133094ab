// Streams: the driver's side of the pipeline that stages.h describes. Batches are numbered on from
// the runs before; those from `oldest_` to before `announced` have a frame each, in the order in
// which they came. Some of them are empty: sent to let the others move on.
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm_hetero/executor.h>

#include <optional>

#include "board.h"
#include "executor_internal.h"
#include "program.h"
#include "worker.h"

namespace tvm_hetero {

// ---------------------------------------------------------------------------- what can be called

std::vector<int64_t> Executor::Stages() const {
  return {program_->stages.begin(), program_->stages.end()};
}

int64_t Executor::Frames() const { return program_->Frames(); }

void Executor::OpenStream() {
  Exclusive exclusive(this);
  CheckReady();
  BeginStream();
}

bool Executor::Push(const ffi::Array<ffi::Tensor>& inputs) {
  Exclusive exclusive(this, Exclusive::Of::kStream);
  if (!board_->streaming) TVM_FFI_THROW(RuntimeError) << "no stream is open: open one first";
  if (inputs.size() != plan_.inputs.size()) {
    TVM_FFI_THROW(ValueError) << inputs.size() << " inputs were given, expected "
                              << plan_.inputs.size();
  }
  for (size_t i = 0; i < inputs.size(); ++i) CheckInput(static_cast<int64_t>(i), inputs[i]);
  if (board_->failed.load()) FailStream(/*interrupted=*/false);
  if (IsFull()) return false;
  Frame& frame = board_->FrameOf(board_->announced.load());
  for (size_t i = 0; i < inputs.size(); ++i) frame.slots[plan_.inputs[i].slot].tensor = inputs[i];
  Announce(/*empty=*/false);
  return true;
}

ffi::Array<ffi::Tensor> Executor::Pop() {
  Exclusive exclusive(this, Exclusive::Of::kStream);
  if (!board_->streaming) TVM_FFI_THROW(RuntimeError) << "no stream is open: open one first";
  if (in_flight_ == 0) TVM_FFI_THROW(RuntimeError) << "nothing is in flight: push inputs first";
  Frame& frame = AwaitOldestBatch();
  ffi::Array<ffi::Tensor> outputs;
  for (size_t i = 0; i < plan_.outputs.size(); ++i) {
    outputs.push_back(OutputIn(frame, static_cast<int64_t>(i)));
  }
  Retire(&frame);
  return outputs;
}

void Executor::CloseStream() {
  Exclusive exclusive(this, Exclusive::Of::kStream);
  if (board_->streaming) EndStream();
}

std::vector<double> Executor::RunStream(int64_t count) {
  Exclusive exclusive(this);
  if (count < 0) TVM_FFI_THROW(ValueError) << count << " batches were asked for, expected 0 or more";
  CheckReady();
  CheckInputsSet();
  BeginStream();
  std::vector<double> ends;
  auto next_look = Clock::now() + kSignalPeriod;
  for (int64_t pushed = 0; static_cast<int64_t>(ends.size()) < count;) {
    if (pushed < count && !IsFull()) {
      Frame& frame = board_->FrameOf(board_->announced.load());
      for (const InputPlan& input : plan_.inputs) {
        frame.slots[input.slot].tensor = board_->home.slots[input.slot].tensor;
      }
      Announce(/*empty=*/false);
      ++pushed;
      continue;
    }
    Frame& frame = AwaitOldestBatch();
    ends.push_back(frame.end);
    Retire(&frame);
    if (Clock::now() < next_look) continue;  // each look takes Python's lock
    if (TVMFFIEnvCheckSignals() != 0) FailStream(/*interrupted=*/true);
    next_look = Clock::now() + kSignalPeriod;
  }
  EndStream();
  return ends;
}

// ---------------------------------------------------------------------------- begin and end

void Executor::BeginStream() {
  EmptySlots();
  Board& board = *board_;
  while (board.frames.size() < static_cast<size_t>(program_->Frames())) {
    board.frames.emplace_back(plan_.slots.size());
  }
  // What 'happened' in the periods before the first, so that nothing waits for it.
  const uint64_t first = number_ + 1 + program_->last_stage;
  for (size_t i = 0; i < board.marks.size(); ++i) {
    board.marks[i].run.store(first - 1 - program_->stages[i]);
  }
  for (Frame& frame : board.frames) frame.done.store(0);
  board.first_batch = oldest_ = first;
  board.announced.store(first);
  board.streaming = true;
  in_flight_ = 0;
  StartRun(first);
}

/*! \brief Let the workers leave the run: each ends the step that it is in and skips the others. */
void Executor::DismissWorkers() {
  board_->failed.store(true);
  board_->UnparkWorkers();
  // Without a look for Ctrl-C: it would have to be told of, and the caller has his own to tell.
  auto ended = [this] { return board_->unfinished.load() == 0; };
  while (!board_->driver.AwaitFor(kSignalPeriod, ended)) {
  }
}

void Executor::EndStream() {
  DismissWorkers();
  for (Frame& frame : board_->frames) {
    for (Slot& slot : frame.slots) slot.tensor.reset();
  }
  number_ = board_->announced.load();  // beyond every mark
  in_flight_ = 0;
  board_->streaming = false;
}

/*! \brief End the stream and tell why: Ctrl-C, or the first step that failed. */
void Executor::FailStream(bool interrupted) {
  DismissWorkers();  // all errors are there then
  std::optional<ffi::Error> error;
  if (!interrupted) error = FirstError();
  EndStream();
  if (error) throw *error;
  throw ffi::EnvErrorAlreadySet();
}

// ---------------------------------------------------------------------------- batches

/*! \brief Begin a batch in the next frame, which is free and holds the inputs. */
void Executor::Announce(bool empty) {
  const uint64_t batch = board_->announced.load();
  Frame& frame = board_->FrameOf(batch);
  frame.empty = empty;
  frame.workers_left.store(program_->busy_workers);
  if (program_->busy_workers == 0) frame.done.store(batch);
  in_flight_ += empty ? 0 : 1;
  board_->announced.store(batch + 1);
  board_->UnparkWorkers();
}

/*! \brief Whether each frame holds a batch whose outputs have not been taken. */
bool Executor::IsFull() {
  while (board_->announced.load() - oldest_ == board_->frames.size()) {
    if (!board_->FrameOf(oldest_).empty) return true;
    AwaitOldest();
    ++oldest_;
  }
  return false;
}

/*! \brief Wait for the oldest batch that is not empty, sending empty ones behind it as needed. */
Frame& Executor::AwaitOldestBatch() {
  for (;; ++oldest_) {
    // The periods that it has to pass; there are frames for them, as there is one more than that.
    const uint64_t needed = oldest_ + program_->last_stage + 1;
    while (board_->announced.load() < needed) Announce(/*empty=*/true);
    AwaitOldest();
    Frame& frame = board_->FrameOf(oldest_);
    if (!frame.empty) return frame;
  }
}

/*! \brief Wait until the oldest batch is through; throws if the stream has failed. */
void Executor::AwaitOldest() {
  const std::atomic<uint64_t>& done = board_->FrameOf(oldest_).done;
  auto ready = [&] { return done.load() == oldest_ || board_->failed.load(); };
  while (!board_->driver.AwaitFor(kSignalPeriod, ready)) {
    if (TVMFFIEnvCheckSignals() != 0) FailStream(/*interrupted=*/true);
  }
  if (board_->failed.load()) FailStream(/*interrupted=*/false);
}

/*! \brief Free the frame of the oldest batch. */
void Executor::Retire(Frame* frame) {
  for (Slot& slot : frame->slots) slot.tensor.reset();
  ++oldest_;
  --in_flight_;
}

}  // namespace tvm_hetero
