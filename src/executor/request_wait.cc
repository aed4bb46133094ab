// The desk's answers to those who wait for the end of requests, or look something up.
#include <tvm/ffi/error.h>

#include "executor/request_desk.h"
#include "executor/request_sleep.h"

namespace tvm_hetero {

// ---------------------------------------------------------------------------- waiting for the end

bool RequestDesk::Wait(const RequestPtr& request, TimeLimit limit) {
  const TimeLimit end = Earlier(limit, request->deadline);
  auto is_done = [&] { return request->done.load(); };
  Lock lock = Acquire();
  if (!is_done() && IsAlone() && spin_.IsAllowed()) {
    lock.unlock();
    CallerSpin::Until(end, is_done);
    lock = Acquire();
  }
  bool done = Sleep(&lock, &request->changed, end, is_done);
  if (done || !ExpireIfLate(request.get())) return done;
  lock.unlock();
  state_->UnparkWorkers();
  return true;
}

void RequestDesk::Drain(const RequestPtr& request, TimeLimit limit) {
  Lock lock(mutex_);
  // Without a look for Ctrl-C: it would have to be told of, and the caller has his own to tell.
  auto is_left = [&] { return request->frame == nullptr; };
  if (!limit) return request->changed.wait(lock, is_left);
  request->changed.wait_until(lock, *limit, is_left);
}

TimeLimit RequestDesk::EarliestDeadline() const {
  TimeLimit earliest;
  for (const Frame& frame : state_->frames) {
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
    for (Frame& frame : state_->frames) {
      if (frame.request && frame.request->notify) ExpireIfLate(frame.request.get());
    }
    lock.unlock();
    state_->UnparkWorkers();
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
  if (!IsIdle()) {
    TVM_FFI_THROW(RuntimeError) << "the executor is in use: "
                                << state_->frames.size() - free_.size()
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
