#include "executor/request_desk.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <utility>

#include "executor/request_outputs.h"
#include "executor/request_sleep.h"
#include "executor/thread_setup.h"

namespace tvm_hetero {
namespace {

const char* const kClosed = "closed: the executor was closed during the run";

}  // namespace

// ---------------------------------------------------------------------------- the queue

/*! \brief The lock, for who is in a hurry: it is held so briefly that sleeping would take longer. */
RequestDesk::Lock RequestDesk::Acquire() const {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    Lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock()) return lock;
    Relax();
  }
  return Lock(mutex_);
}

/*! \brief A place in the queue for as long as this object lives. */
class RequestDesk::InLine {
 public:
  InLine(RequestDesk* desk, std::shared_ptr<Ticket> ticket)
      : desk_(desk), ticket_(std::move(ticket)) {
    desk->tickets_.push_back(ticket_);
  }
  ~InLine() {
    auto& tickets = desk_->tickets_;
    tickets.erase(std::find(tickets.begin(), tickets.end(), ticket_));
    desk_->CallNext();
  }

 private:
  RequestDesk* desk_;
  std::shared_ptr<Ticket> ticket_;
};

/*! \brief The first in the queue, if he is to look whether there is a frame for him. */
std::shared_ptr<RequestDesk::Ticket> RequestDesk::Next() const {
  return !tickets_.empty() && (HasRoom() || closed_ || retired_) ? tickets_.front() : nullptr;
}

void RequestDesk::CallNext() {
  if (std::shared_ptr<Ticket> next = Next()) next->called.notify_one();
}

/*! \brief Wait until it is our turn and a frame is free; false if there was no room in time. */
bool RequestDesk::AwaitTurn(Lock* lock, TimeLimit room, const Request& request) {
  // A worker that dies is through in a moment: that the desk pauses is no lack of room.
  buried_.wait(*lock, [this] { return dying_ == 0; });
  RequireOpen();
  if (tickets_.empty() && HasRoom()) return true;
  if (HasPassed(room)) return false;
  auto ticket = std::make_shared<Ticket>();
  bool has_turn;
  {
    InLine in_line(this, ticket);
    has_turn = Sleep(lock, &ticket->called, Earlier(room, request.deadline), [&] {
      return closed_ || retired_ || (tickets_.front() == ticket && HasRoom());
    });
  }
  RequireOpen();
  if (!has_turn && HasPassed(request.deadline)) {
    throw ffi::Error("RuntimeError", "deadline: it passed before there was room to begin", "");
  }
  return has_turn;
}

void RequestDesk::RequireOpen() const {
  // This first: who comes too late for a plan that is through and closed has another one to go to.
  if (retired_) throw ffi::Error("RuntimeError", "retired: another plan takes what comes", "");
  if (closed_) TVM_FFI_THROW(RuntimeError) << "the executor is closed: make a new one";
}

// ---------------------------------------------------------------------------- coming in

RequestDesk::RequestDesk(const Plan& plan, const Program& program, ExecutorState* state,
                         std::function<void(int)> restart)
    : plan_(plan),
      program_(program),
      state_(state),
      spin_(plan, program),
      restart_(std::move(restart)),
      log_(plan.steps.size(), state->epoch) {
  for (Frame& frame : state->frames) free_.push_back(&frame);
  last_record_ = state->frames.front().record;
}

RequestPtr RequestDesk::Submit(RequestPtr request, TimeLimit room, bool listed) {
  bool without_steps = program_.busy_workers == 0;
  state_->caller_core.store(CurrentCore(), std::memory_order_relaxed);
  Frame* frame;
  {
    Lock lock(mutex_);
    if (!AwaitTurn(&lock, room, *request)) return nullptr;
    Admit(request, listed);
    frame = request->frame;
    CallNext();
  }
  if (without_steps) Finish(frame);
  state_->UnparkWorkers();
  return request;
}

/*! \brief Give a request the next number and a free frame, and announce it. */
void RequestDesk::Admit(const RequestPtr& request, bool listed) {
  while (!dead_.empty()) {
    restart_(dead_.back());
    dead_.pop_back();
  }
  if (listed) {
    request->id = ++last_id_;
    requests_.emplace(request->id, request);
  }
  Frame* frame = free_.back();
  free_.pop_back();
  const uint64_t batch = state_->announced.load() + 1;
  frame->batch = batch;
  frame->deadline = request->deadline;
  frame->error.reset();
  frame->skip.store(false);
  frame->parts_left.store(program_.busy_workers);
  frame->record.has_kernel_times = state_->profile_kernels.load();
  for (size_t i = 0; i < request->inputs.size(); ++i) {
    frame->slots[plan_.inputs[i].slot].tensor = request->inputs[i];
  }
  frame->request = request;
  request->begun = state_->Now();
  request->frame = frame;
  if (free_.size() + 2 == state_->frames.size()) {  // two are in flight: a stream may have begun
    state_->buffers_wanted.store(static_cast<int>(state_->frames.size()));
  }
  if (request->notify && request->deadline) {
    ++deadlines_seen_;
    done_changed_.notify_one();
  }
  for (Progress& part : frame->parts) part.Put(batch, 0);  // from here on it is the workers'
  state_->announced.store(batch);
}

// ---------------------------------------------------------------------------- how it ends

/*! \brief Note the end; whoever waits is still to be told. */
void RequestDesk::Complete(Request* request, std::optional<std::string> failure) {
  request->failure = std::move(failure);
  request->end = state_->Now();
  request->done = true;
  if (request->notify && request->id != 0) done_.push_back(request->id);
}

/*! \brief End a request whose frame workers are still at. */
void RequestDesk::Abort(Request* request, const std::string& failure) {
  Complete(request, failure);
  if (request->frame != nullptr) request->frame->skip.store(true);
  request->changed.notify_all();
  if (request->notify) done_changed_.notify_one();
}

bool RequestDesk::Cancel(const RequestPtr& request) {
  {
    Lock lock(mutex_);
    if (request->done) return false;
    Abort(request.get(), "cancelled: the request was cancelled");
  }
  state_->UnparkWorkers();
  return true;
}

bool RequestDesk::ExpireIfLate(Request* request) {
  if (request->done || !HasPassed(request->deadline)) return false;
  Abort(request, "deadline: it passed before the request was done");
  return true;
}

void RequestDesk::Expire(Frame* frame) {
  {
    Lock lock(mutex_);
    ExpireIfLate(frame->request.get());
  }
  state_->UnparkWorkers();
}

void RequestDesk::Close() {
  {
    Lock lock(mutex_);
    closed_ = true;
    state_->closing.store(true);
    for (Frame& frame : state_->frames) {
      if (frame.request && !frame.request->done) Abort(frame.request.get(), kClosed);
    }
    CallNext();
    done_changed_.notify_all();
    idle_.notify_all();
  }
  state_->UnparkWorkers();
}

bool RequestDesk::Retire(TimeLimit limit) {
  Lock lock(mutex_);
  retired_ = true;
  state_->retired.store(true);
  CallNext();
  state_->UnparkWorkers();
  return Sleep(&lock, &idle_, limit, [this] { return IsIdle() || closed_; });
}

bool RequestDesk::closed() const {
  Lock lock(mutex_);
  return closed_;
}

void RequestDesk::Fail(Frame* frame, StepError error) {
  {
    Lock lock(mutex_);
    if (!frame->error || error.step < frame->error->step) frame->error = std::move(error);
    frame->skip.store(true);
  }
  state_->UnparkWorkers();
}

void RequestDesk::FailAll(const std::string& message) {
  {
    Lock lock(mutex_);
    ++dying_;
    for (Frame& frame : state_->frames) {
      if (!frame.request) continue;
      frame.error = StepError{-1, message};
      frame.skip.store(true);
    }
  }
  state_->UnparkWorkers();
}

void RequestDesk::Bury(int worker) {
  Lock lock(mutex_);
  --dying_;
  dead_.push_back(worker);
  buried_.notify_all();
  CallNext();
}

/*! \brief What to tell of an error, its kind first. */
std::string RequestDesk::Told(const StepError& error) const {
  if (error.step < 0) return error.message;
  const StepPlan& step = plan_.steps[error.step];
  std::string text = "step '" + step.name + "' on worker '" + plan_.workers[step.worker].name +
                     "' failed: " + error.message;
  return error.message.rfind("NumericsError", 0) == 0 ? "numerics: " + text : text;
}

void RequestDesk::Finish(Frame* frame) {
  ffi::Array<ffi::Tensor> outputs;
  std::optional<std::string> failure;
  if (!frame->skip.load()) {
    try {
      outputs = CollectOutputs(plan_, *state_, *frame);
    } catch (const ffi::Error& error) {
      failure = error.message();
    } catch (const std::exception& error) {
      failure = error.what();
    }
  }
  for (Slot& slot : frame->slots) slot.tensor.reset();

  std::vector<Span> watched;
  if (log_.is_on()) watched = frame->record.spans;
  RequestPtr request;  // it and what is left in `outputs` are freed when the lock is not held
  std::shared_ptr<Ticket> next;
  {
    Lock lock = Acquire();
    request = std::move(frame->request);
    frame->request.reset();
    request->frame = nullptr;
    if (frame->error) failure = Told(*frame->error);
    if (!request->done) {
      if (!failure) std::swap(request->outputs, outputs);
      Complete(request.get(), std::move(failure));
      spin_.Note(request->end - request->begun);
    }
    if (record_only_ == 0 || record_only_ == frame->batch) std::swap(frame->record, last_record_);
    free_.push_back(frame);
    next = Next();
    if (retired_ && IsIdle()) idle_.notify_all();
  }
  if (!watched.empty()) log_.Add(request->begun, request->end, watched);
  // Not before: who wakes while we hold the lock goes to sleep again at once, waiting for it.
  request->changed.notify_all();
  if (request->notify) done_changed_.notify_one();
  if (next) next->called.notify_one();
}

}  // namespace tvm_hetero
