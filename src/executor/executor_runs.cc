// Runs on the inputs that are set, and what was measured of them. A run is a request like any other,
// but not in the list: nobody else can find it.
#include <tvm/ffi/error.h>
#include <tvm_hetero/executor.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <list>
#include <utility>

#include "executor/executor_internal.h"
#include "executor/program.h"
#include "executor/request_desk.h"
#include "executor/request_sleep.h"
#include "executor/state.h"
#include "executor/worker.h"

namespace tvm_hetero {
namespace {

void ThrowFailure(const Request& request) {
  if (request.failure) throw ffi::Error("RuntimeError", *request.failure, "");
}

/*! \brief Requests in flight that are ended with this object, whatever happens. */
class Flight {
 public:
  explicit Flight(RequestDesk* desk) : desk_(desk) {}
  ~Flight() {
    for (const RequestPtr& request : requests_) desk_->Cancel(request);
    for (const RequestPtr& request : requests_) desk_->Drain(request);
  }

  void Add(RequestPtr request) { requests_.push_back(std::move(request)); }
  bool empty() const { return requests_.empty(); }
  const RequestPtr& oldest() const { return requests_.front(); }
  /*! \brief Let go of those that are done, and tell when they were. */
  void Land(std::vector<double>* ends) {
    for (auto it = requests_.begin(); it != requests_.end();) {
      bool done = desk_->Wait(*it, Clock::now());
      if (done) {
        ThrowFailure(**it);
        ends->push_back((*it)->end);
        // Now, not with the request: the worker that finished it may hold it for a while yet.
        (*it)->outputs = {};
      }
      it = done ? requests_.erase(it) : std::next(it);
    }
  }

 private:
  RequestDesk* desk_;
  std::list<RequestPtr> requests_;
};

/*! \brief Looks for Ctrl-C once in a while; each look takes Python's lock. */
class SignalWatch {
 public:
  void Look() {
    if (Clock::now() < next_) return;
    if (TVMFFIEnvCheckSignals() != 0) throw ffi::EnvErrorAlreadySet();
    next_ = Clock::now() + kSignalPeriod;
  }

 private:
  Clock::time_point next_{Clock::now() + kSignalPeriod};
};

void RefuseCount(int64_t count, const char* what) {
  if (count >= 0) return;
  TVM_FFI_THROW(ValueError) << count << " " << what << " were asked for, expected 0 or more";
}

}  // namespace

void Executor::SetInput(int64_t index, const ffi::Tensor& tensor) {
  Exclusive exclusive(this);
  CheckInput(index, tensor);
  inputs_[index] = tensor;
  input_list_.reset();
}

void Executor::CheckInputsSet() const {
  std::string missing;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i] != nullptr) continue;
    missing += (missing.empty() ? "'" : ", '") + plan_.inputs[i].name + "'";
  }
  if (!missing.empty()) TVM_FFI_THROW(RuntimeError) << "inputs not set: " << missing;
}

// ---------------------------------------------------------------------------- running

/*! \brief Begin a request on the inputs that are set. */
RequestPtr Executor::Begin() {
  if (!input_list_) {
    input_list_.emplace();
    for (const ffi::Any& input : inputs_) input_list_->push_back(input.cast<ffi::Tensor>());
  }
  auto request = std::make_shared<Request>(*input_list_, std::nullopt, /*is_notified=*/false);
  return desk_->Submit(std::move(request), std::nullopt, /*listed=*/false);
}

double Executor::Run() {
  Exclusive exclusive(this);
  outputs_.reset();
  CheckReady();
  CheckInputsSet();
  return RunOnce();
}

std::vector<double> Executor::RunRepeated(int64_t count) {
  Exclusive exclusive(this);
  RefuseCount(count, "runs");
  outputs_.reset();
  CheckReady();
  CheckInputsSet();
  std::vector<double> seconds;
  SignalWatch watch;
  for (int64_t i = 0; i < count; ++i) {
    seconds.push_back(RunOnce());
    watch.Look();
  }
  return seconds;
}

double Executor::RunOnce() {
  outputs_.reset();  // its buffers are free for this run
  const auto start = Clock::now();
  RequestPtr request = Begin();
  {
    Flight flight(desk_.get());
    flight.Add(request);
    desk_->Wait(request, std::nullopt);
  }
  double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  ThrowFailure(*request);
  outputs_ = std::move(request->outputs);
  return seconds;
}

std::vector<double> Executor::RunStream(int64_t count) {
  Exclusive exclusive(this);
  RefuseCount(count, "batches");
  outputs_.reset();
  CheckReady();
  CheckInputsSet();
  std::vector<double> ends;
  const double start = state_->Now();
  desk_->RecordOnly(desk_->last_batch() + 1 + static_cast<uint64_t>(count) / 2);
  try {
    Flight flight(desk_.get());
    SignalWatch watch;
    for (int64_t i = 0; i < count; ++i) {
      flight.Add(Begin());  // waits for a free frame
      flight.Land(&ends);
      watch.Look();
    }
    while (!flight.empty()) {
      desk_->Wait(flight.oldest(), std::nullopt);
      flight.Land(&ends);
    }
  } catch (...) {
    desk_->RecordOnly(0);
    throw;
  }
  desk_->RecordOnly(0);
  std::sort(ends.begin(), ends.end());
  for (double& end : ends) end -= start;
  return ends;
}

ffi::Tensor Executor::Output(int64_t index) const {
  Exclusive exclusive(this);
  const OutputPlan& output = RowAt(plan_.outputs, index, "output");
  if (!outputs_) {
    TVM_FFI_THROW(RuntimeError) << "output '" << output.name
                                << "' is not there: no run has succeeded since the last start";
  }
  return (*outputs_)[index];
}

// ---------------------------------------------------------------------------- what was measured

std::vector<double> Executor::Trace() const {
  Exclusive exclusive(this);
  const std::vector<Span> spans = desk_->LastRecord().spans;
  double origin = std::numeric_limits<double>::infinity();
  for (const Span& span : spans) {
    if (!std::isnan(span.start)) origin = std::min(origin, span.start);
  }
  std::vector<double> times;
  for (const Span& span : spans) {
    times.push_back(span.start - origin);
    times.push_back(span.end - origin);
  }
  return times;
}

std::vector<double> Executor::Waits() const {
  Exclusive exclusive(this);
  std::vector<double> waits;
  for (const Span& span : desk_->LastRecord().spans) waits.push_back(span.waited);
  return waits;
}

std::vector<int64_t> Executor::RunBy() const {
  Exclusive exclusive(this);
  std::vector<int64_t> workers;
  for (const Span& span : desk_->LastRecord().spans) workers.push_back(span.worker);
  return workers;
}

std::vector<double> Executor::KernelTimes() const {
  Exclusive exclusive(this);
  Record record = desk_->LastRecord();
  if (!record.has_kernel_times) {
    std::fill(record.kernel_times.begin(), record.kernel_times.end(),
              std::numeric_limits<double>::quiet_NaN());
  }
  return record.kernel_times;
}

void Executor::ProfileKernels(bool on) { state_->profile_kernels.store(on); }

void Executor::Watch(int64_t capacity) {
  RefuseCount(capacity, "requests");
  desk_->log()->Watch(static_cast<size_t>(capacity));
  state_->watches_steps.store(capacity > 0);
}

ffi::Tensor Executor::TakeWatched() { return desk_->log()->Take(); }

void Executor::CheckNumerics(bool on) { state_->check_numerics.store(on); }

std::vector<int64_t> Executor::Stages() const {
  return {program_->stages.begin(), program_->stages.end()};
}

int64_t Executor::Frames() const { return program_->frames; }

int64_t Executor::Allocations() const { return state_->allocated.load(); }

std::vector<int64_t> Executor::FilledSlots() const {
  Exclusive exclusive(this);
  std::vector<bool> filled = desk_->LeakedSlots();
  for (const OutputPlan& output : plan_.outputs) {
    if (outputs_ && program_->slots[output.slot].made_by_step) filled[output.slot] = true;
  }
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < filled.size(); ++i) {
    if (filled[i] && program_->slots[i].made_by_step) numbers.push_back(static_cast<int64_t>(i));
  }
  return numbers;
}

}  // namespace tvm_hetero
