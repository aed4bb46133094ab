#include "request_desk.h"

#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <algorithm>
#include <utility>

#include "request_outputs.h"

namespace tvm_hetero {
namespace {

//! How often a thread that waits looks for Ctrl-C.
constexpr std::chrono::milliseconds kSignalPeriod{100};

const char* const kClosed = "closed: the executor was closed during the run";

TimeLimit Earlier(TimeLimit a, TimeLimit b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

bool HasPassed(TimeLimit limit) { return limit && Clock::now() >= *limit; }

}  // namespace

// ---------------------------------------------------------------------------- waiting

/*! \brief Sleep until `ready()`; false if `limit` came first. Looks for Ctrl-C meanwhile. */
template <typename Ready>
bool RequestDesk::Sleep(Lock* lock, std::condition_variable* changed, TimeLimit limit,
                        Ready ready) {
  if (ready()) return true;  // mostly so: no look at the clock then
  auto next_look = Clock::now() + kSignalPeriod;
  while (!ready()) {
    if (HasPassed(limit)) return false;
    changed->wait_until(*lock, *Earlier(limit, next_look));
    if (Clock::now() < next_look) continue;
    // A handler of a signal is any Python code, which may want to close this executor.
    lock->unlock();
    int pending = TVMFFIEnvCheckSignals();
    lock->lock();
    if (pending != 0) throw ffi::EnvErrorAlreadySet();
    next_look = Clock::now() + kSignalPeriod;
  }
  return true;
}

/*! \brief The lock, for a worker: it is held so briefly that sleeping would take longer. */
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
  return !tickets_.empty() && (HasRoom() || closed_) ? tickets_.front() : nullptr;
}

void RequestDesk::CallNext() {
  if (std::shared_ptr<Ticket> next = Next()) next->called.notify_one();
}

/*! \brief Wait until it is our turn and a frame is free; false if there was no room in time. */
bool RequestDesk::AwaitTurn(Lock* lock, TimeLimit room, const Request& request) {
  RequireOpen();
  if (tickets_.empty() && HasRoom()) return true;
  if (HasPassed(room)) return false;
  auto ticket = std::make_shared<Ticket>();
  bool has_turn;
  {
    InLine in_line(this, ticket);
    has_turn = Sleep(lock, &ticket->called, Earlier(room, request.deadline), [&] {
      return closed_ || (tickets_.front() == ticket && HasRoom());
    });
  }
  RequireOpen();
  if (!has_turn && HasPassed(request.deadline)) {
    throw ffi::Error("RuntimeError", "deadline: it passed before there was room to begin", "");
  }
  return has_turn;
}

void RequestDesk::RequireOpen() const {
  if (closed_) TVM_FFI_THROW(RuntimeError) << "the executor is closed: make a new one";
}

// ---------------------------------------------------------------------------- coming in

RequestDesk::RequestDesk(const Plan& plan, const Program& program, Board* board,
                         std::function<void(int)> restart)
    : plan_(plan), program_(program), board_(board), restart_(std::move(restart)) {
  for (Frame& frame : board->frames) free_.push_back(&frame);
  last_record_ = board->frames.front().record;
}

RequestPtr RequestDesk::Submit(RequestPtr request, TimeLimit room, bool listed) {
  bool without_steps = program_.busy_workers == 0;
  Frame* frame;
  {
    Lock lock(mutex_);
    if (!AwaitTurn(&lock, room, *request)) return nullptr;
    Admit(request, listed);
    frame = request->frame;
    CallNext();
  }
  if (without_steps) Finish(frame);
  board_->UnparkWorkers();
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
  const uint64_t batch = board_->announced.load() + 1;
  frame->batch = batch;
  frame->deadline = request->deadline;
  frame->error.reset();
  frame->skip.store(false);
  frame->workers_left.store(program_.busy_workers);
  frame->record.has_kernel_times = board_->profile_kernels.load();
  for (size_t i = 0; i < request->inputs.size(); ++i) {
    frame->slots[plan_.inputs[i].slot].tensor = request->inputs[i];
  }
  frame->request = request;
  request->frame = frame;
  board_->ring[batch % board_->ring.size()] = frame;
  if (free_.size() + 2 == board_->frames.size()) {  // two are in flight: a stream may have begun
    board_->buffers_wanted.store(static_cast<int>(board_->frames.size()));
  }
  if (request->notify && request->deadline) {
    ++deadlines_seen_;
    done_changed_.notify_one();
  }
  board_->announced.store(batch);
}

// ---------------------------------------------------------------------------- how it ends

/*! \brief Note the end; whoever waits is still to be told. */
void RequestDesk::Complete(Request* request, std::optional<std::string> failure) {
  request->failure = std::move(failure);
  request->end = board_->Now();
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
  board_->UnparkWorkers();
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
  board_->UnparkWorkers();
}

void RequestDesk::Close() {
  {
    Lock lock(mutex_);
    closed_ = true;
    board_->closing.store(true);
    for (Frame& frame : board_->frames) {
      if (frame.request && !frame.request->done) Abort(frame.request.get(), kClosed);
    }
    CallNext();
    done_changed_.notify_all();
  }
  board_->UnparkWorkers();
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
  board_->UnparkWorkers();
}

void RequestDesk::FailAll(const std::string& message) {
  {
    Lock lock(mutex_);
    ++dying_;
    for (Frame& frame : board_->frames) {
      if (!frame.request) continue;
      frame.error = StepError{-1, message};
      frame.skip.store(true);
    }
  }
  board_->UnparkWorkers();
}

void RequestDesk::Bury(int worker) {
  Lock lock(mutex_);
  --dying_;
  dead_.push_back(worker);
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
      outputs = CollectOutputs(plan_, *board_, *frame);
    } catch (const ffi::Error& error) {
      failure = error.message();
    } catch (const std::exception& error) {
      failure = error.what();
    }
  }
  for (Slot& slot : frame->slots) slot.tensor.reset();

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
    }
    if (record_only_ == 0 || record_only_ == frame->batch) std::swap(frame->record, last_record_);
    free_.push_back(frame);
    next = Next();
  }
  // Not before: who wakes while we hold the lock goes to sleep again at once, waiting for it.
  request->changed.notify_all();
  if (request->notify) done_changed_.notify_one();
  if (next) next->called.notify_one();
}

// ---------------------------------------------------------------------------- waiting for the end

bool RequestDesk::Wait(const RequestPtr& request, TimeLimit limit) {
  Lock lock(mutex_);
  bool done = Sleep(&lock, &request->changed, Earlier(limit, request->deadline),
                    [&] { return request->done; });
  if (done || !ExpireIfLate(request.get())) return done;
  lock.unlock();
  board_->UnparkWorkers();
  return true;
}

void RequestDesk::Drain(const RequestPtr& request) {
  Lock lock(mutex_);
  // Without a look for Ctrl-C: it would have to be told of, and the caller has his own to tell.
  request->changed.wait(lock, [&] { return request->frame == nullptr; });
}

TimeLimit RequestDesk::EarliestDeadline() const {
  TimeLimit earliest;
  for (const Frame& frame : board_->frames) {
    if (!frame.request || frame.request->done || !frame.request->notify) continue;
    earliest = Earlier(earliest, frame.request->deadline);
  }
  return earliest;
}

/*! \brief The first request to be told of that has not been forgotten meanwhile; 0 if there is none. */
int64_t RequestDesk::NextListed() {
  while (!done_.empty()) {
    int64_t id = done_.front();
    done_.pop_front();
    if (requests_.count(id) != 0) return id;
  }
  return 0;
}

int64_t RequestDesk::NextDone(TimeLimit limit) {
  Lock lock(mutex_);
  for (;;) {
    if (int64_t id = NextListed()) return id;
    if (closed_) return 0;
    const uint64_t seen = deadlines_seen_;
    bool changed =
        Sleep(&lock, &done_changed_, Earlier(limit, EarliestDeadline()),
              [&] { return !done_.empty() || closed_ || deadlines_seen_ != seen; });
    if (changed) continue;
    if (HasPassed(limit)) return 0;
    for (Frame& frame : board_->frames) {
      if (frame.request && frame.request->notify) ExpireIfLate(frame.request.get());
    }
    lock.unlock();
    board_->UnparkWorkers();
    lock.lock();
  }
}

// ---------------------------------------------------------------------------- looking things up

RequestPtr RequestDesk::Find(int64_t id) const {
  Lock lock(mutex_);
  auto found = requests_.find(id);
  if (found == requests_.end()) {
    TVM_FFI_THROW(IndexError) << "there is no request " << id << ": it was taken or forgotten, or "
                              << "never submitted";
  }
  return found->second;
}

RequestPtr RequestDesk::Remove(int64_t id, bool must_be_done) {
  RequestPtr request = Find(id);
  Lock lock(mutex_);
  if (must_be_done && !request->done) {
    TVM_FFI_THROW(RuntimeError) << "request " << id << " is not done: wait for it";
  }
  if (requests_.erase(id) == 0) {
    TVM_FFI_THROW(IndexError) << "request " << id << " was taken by another thread meanwhile";
  }
  return request;
}

void RequestDesk::WhenIdle(const std::function<void()>& change) {
  Lock lock(mutex_);
  if (free_.size() != board_->frames.size()) {
    TVM_FFI_THROW(RuntimeError) << "the executor is in use: "
                                << board_->frames.size() - free_.size()
                                << " requests are in flight. Wait for them";
  }
  change();
}

Record RequestDesk::LastRecord() const {
  Lock lock(mutex_);
  return last_record_;
}

void RequestDesk::RecordOnly(uint64_t batch) {
  Lock lock(mutex_);
  record_only_ = batch;
}

std::vector<bool> RequestDesk::LeakedSlots() const {
  Lock lock(mutex_);
  std::vector<bool> filled(plan_.slots.size());
  for (const Frame* frame : free_) {
    for (size_t i = 0; i < filled.size(); ++i) {
      filled[i] = filled[i] || frame->slots[i].tensor != nullptr;
    }
  }
  return filled;
}

}  // namespace tvm_hetero
