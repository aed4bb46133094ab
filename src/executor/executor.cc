#include <tvm/ffi/error.h>
#include <tvm_hetero/executor.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <utility>

#include "executor/executor_internal.h"
#include "executor/program.h"
#include "executor/request_desk.h"
#include "executor/state.h"
#include "executor/worker.h"
#include "memory/device_api.h"
#include "support/device_name.h"
#include "support/pace.h"

namespace tvm_hetero {
namespace {

// How long a worker spins before it sleeps. Waking a sleeping thread takes 5 to 50 us. With nothing
// in flight it spins about that long, which loses at most a factor of two against knowing the length
// of the wait (the ski rental argument). With a batch in flight its core is its own and the wait is
// on the batch's critical path, so it spins much longer: only a wait beside which waking is little
// is slept.
constexpr Spin kSpin{std::chrono::microseconds{50}, std::chrono::milliseconds{2}};

/*! \brief A worker may spin only where it keeps nobody from working. */
bool MaySpin(const Plan& plan, size_t worker) {
  if (plan.workers[worker].cores.empty()) {
    return std::thread::hardware_concurrency() > plan.workers.size();
  }
  return plan.IsAloneOnCores(static_cast<int>(worker));
}

std::string TypeOf(const ffi::Tensor& tensor) {
  return TypeName(tensor.dtype(), tensor.shape().data(), tensor.shape().size());
}

/*! \brief A kernel takes a tensor's place and layout for granted: refuse what differs. */
void CheckPlace(const ffi::Tensor& tensor, DLDevice device, const std::string& what) {
  if (!SameDevice(tensor.device(), device)) {
    TVM_FFI_THROW(ValueError) << what << " was given on " << DeviceName(tensor.device())
                              << ", expected " << DeviceName(device) << ": copy it there";
  }
  if (!tensor.IsContiguous()) {
    TVM_FFI_THROW(ValueError) << what << " was given strided, expected a contiguous tensor: "
                              << "copy it (numpy.ascontiguousarray)";
  }
}

void CheckType(const ffi::Tensor& tensor, DLDataType dtype, const std::vector<int64_t>& shape,
               const std::string& what) {
  ffi::ShapeView given = tensor.shape();
  if (tensor.dtype() == dtype &&
      std::equal(given.begin(), given.end(), shape.begin(), shape.end())) {
    return;
  }
  TVM_FFI_THROW(ValueError) << what << " was given as " << TypeOf(tensor) << ", expected "
                            << TypeName(dtype, shape.data(), shape.size());
}

/*! \brief The moment that is so many seconds from now; none for what is too far to be named. */
TimeLimit In(double seconds) {
  constexpr double kForEver = 1e9;  // some thirty years
  if (!(seconds < kForEver)) return std::nullopt;
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(seconds));
}

TimeLimit Wait(double seconds) { return seconds < 0 ? std::nullopt : In(seconds); }

TimeLimit Deadline(double seconds) { return seconds <= 0 ? std::nullopt : In(seconds); }

}  // namespace

// ---------------------------------------------------------------------------- begin and end

Executor::Executor(Plan plan) : Executor(std::move(plan), nullptr) {}

Executor::Executor(Plan plan, const Executor& before)
    : Executor(std::move(plan), (before.RefuseFork(), before.state_.get())) {}

Executor::Executor(Plan plan, const ExecutorState* before)
    : plan_(std::move(plan)),
      program_(std::make_unique<Program>(MakeProgram(plan_))),
      state_(std::make_unique<ExecutorState>(plan_, *program_)),
      before_(before == nullptr ? nullptr : before->departure),
      inputs_(plan_.inputs.size()),
      process_(getpid()) {
  for (const DevicePlan& device : plan_.devices) RequireRuntime(device.device);
  desk_ = std::make_unique<RequestDesk>(plan_, *program_, state_.get(),
                                        [this](int worker) { workers_[worker]->Restart(); });
  for (size_t i = 0; i < plan_.workers.size(); ++i) {
    workers_.push_back(std::make_unique<Worker>(plan_, *program_, static_cast<int>(i),
                                                state_.get(), desk_.get(), before_.get()));
  }
  if (before_ != nullptr) before_->Follow(&state_->parkers);
  if (before != nullptr && before->buffers_wanted.load() > 1) {
    state_->buffers_wanted.store(program_->frames);
  }
  Pace pace(before_ != nullptr);
  try {
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (plan_.IsMeeting(static_cast<int>(i))) continue;  // its threads are others'
      pace.Rest();
      workers_[i]->Start(MaySpin(plan_, i) ? kSpin : Spin{});
    }
  } catch (...) {
    Shutdown();  // the destructor of a half-made object is not called
    if (before_ != nullptr) before_->Unfollow(&state_->parkers);
    throw;
  }
}

Executor::~Executor() {
  Shutdown();
  if (before_ != nullptr) before_->Unfollow(&state_->parkers);
}

void Executor::Stop() {
  if (!Forked()) desk_->Close();
}

void Executor::Shutdown() {
  if (Forked()) return;
  desk_->Close();  // no thread is started from here on
  if (OnWorker()) return;
  std::lock_guard<std::mutex> lock(joining_);
  for (auto& worker : workers_) worker->Join();
}

bool Executor::Forked() const { return getpid() != process_; }

bool Executor::OnWorker() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const auto& worker) { return worker->IsThisThread(); });
}

void Executor::RefuseFork() const {
  if (!Forked()) return;
  TVM_FFI_THROW(RuntimeError) << "the executor was made in process " << process_
                              << " and its threads are not in this fork, " << getpid()
                              << ": make the executor after forking, or spawn";
}

// ---------------------------------------------------------------------------- what is set once

void Executor::SetFunctions(const ffi::Array<ffi::Any>& functions) {
  Exclusive exclusive(this);
  if (functions.size() != plan_.steps.size()) {
    TVM_FFI_THROW(ValueError) << functions.size() << " functions were given, expected one for each "
                              << "of the " << plan_.steps.size() << " steps (None for copies)";
  }
  std::vector<ffi::Function> given(functions.size());
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    if (plan_.steps[i].kind != StepKind::kCall) continue;
    if (functions[i].type_index() != ffi::TypeIndex::kTVMFFIFunction) {
      TVM_FFI_THROW(ValueError) << "step '" << plan_.steps[i].name << "' was given "
                                << functions[i].GetTypeKey() << ", expected a function ('"
                                << plan_.steps[i].function << "')";
    }
    given[i] = functions[i].cast<ffi::Function>();
  }
  std::vector<ffi::Function> replaced;  // freed when the desk's lock is not held
  desk_->WhenIdle([&] {
    for (size_t i = 0; i < given.size(); ++i) {
      for (int worker : plan_.PartsOf(plan_.steps[i].worker)) {
        replaced.push_back(given[i]);
        workers_[worker]->SetFunction(static_cast<int>(i), &replaced.back());
      }
    }
  });
  has_functions_.store(true);
}

void Executor::SetLibrary(int64_t worker, const ffi::Module& library) {
  Exclusive exclusive(this);
  RowAt(workers_, worker, "worker");
  const auto of = static_cast<int>(worker);
  desk_->WhenIdle([&] {
    for (int other : plan_.PartsOf(plan_.ThreadOf(of))) workers_[other]->SetLibrary(of, library);
  });
}

void Executor::SetConstant(int64_t index, const ffi::Tensor& tensor) {
  Exclusive exclusive(this);
  const ConstantPlan& constant = RowAt(plan_.constants, index, "constant");
  const std::string what = "constant '" + constant.name + "'";
  CheckPlace(tensor, plan_.DeviceOfSlot(constant.slot), what);
  const std::optional<TensorPlan>& type = plan_.slots[constant.slot].type;
  if (type) CheckType(tensor, type->dtype, type->shape, what);
  ffi::Any value(tensor);
  desk_->WhenIdle([&] { std::swap(state_->constants[constant.slot], value); });
}

void Executor::CheckReady() const {
  if (ready_.load()) return;
  std::string missing;
  for (const StepPlan& step : plan_.steps) {
    if (step.kind != StepKind::kCall || has_functions_.load()) continue;
    TVM_FFI_THROW(RuntimeError) << "no functions: call set_functions first";
  }
  for (const auto& worker : workers_) {
    int step = worker->StepWithoutKernels();
    if (step < 0) continue;
    TVM_FFI_THROW(RuntimeError) << "step '" << plan_.steps[step].name << "' has no kernels: call "
                                << "set_library for worker '"
                                << plan_.workers[plan_.steps[step].worker].name << "' first";
  }
  for (const ConstantPlan& constant : plan_.constants) {
    if (state_->constants[constant.slot] != nullptr) continue;
    missing += (missing.empty() ? "'" : ", '") + constant.name + "'";
  }
  if (!missing.empty()) TVM_FFI_THROW(RuntimeError) << "constants not set: " << missing;
  ready_.store(true);  // nothing of this can be unset
}

void Executor::CheckInput(int64_t index, const ffi::Tensor& tensor) const {
  const InputPlan& input = RowAt(plan_.inputs, index, "input");
  const std::string what = "input '" + input.name + "'";
  CheckType(tensor, input.dtype, input.shape, what);
  CheckPlace(tensor, plan_.DeviceOfSlot(input.slot), what);
}

void Executor::CheckInputs(const ffi::Array<ffi::Tensor>& inputs) const {
  if (inputs.size() != plan_.inputs.size()) {
    TVM_FFI_THROW(ValueError) << inputs.size() << " inputs were given, expected "
                              << plan_.inputs.size();
  }
  for (size_t i = 0; i < inputs.size(); ++i) CheckInput(static_cast<int64_t>(i), inputs[i]);
}

// ---------------------------------------------------------------------------- requests

int64_t Executor::Submit(const ffi::Array<ffi::Tensor>& inputs, double deadline_s, double wait_s,
                         bool notify) {
  RefuseFork();
  CheckReady();
  CheckInputs(inputs);
  auto request = std::make_shared<Request>(inputs, Deadline(deadline_s), notify);
  RequestPtr begun = desk_->Submit(std::move(request), tvm_hetero::Wait(wait_s), /*listed=*/true);
  return begun == nullptr ? 0 : begun->id;
}

std::optional<ffi::Array<ffi::Tensor>> Executor::Serve(const ffi::Array<ffi::Tensor>& inputs,
                                                       double deadline_s, double wait_s,
                                                       double settle_s) {
  RefuseFork();
  CheckReady();
  CheckInputs(inputs);
  auto request = std::make_shared<Request>(inputs, Deadline(deadline_s), /*is_notified=*/false);
  if (!desk_->Submit(request, tvm_hetero::Wait(wait_s), /*listed=*/false)) return std::nullopt;
  try {
    desk_->Wait(request, std::nullopt);
  } catch (...) {  // Ctrl-C
    desk_->Cancel(request);
    desk_->Drain(request, In(settle_s));
    throw;
  }
  if (request->failure) {
    desk_->Drain(request, In(settle_s));
    throw ffi::Error("RuntimeError", *request->failure, "");
  }
  return std::move(request->outputs);
}

bool Executor::Wait(int64_t id, double seconds) {
  RefuseFork();
  return desk_->Wait(desk_->Find(id), tvm_hetero::Wait(seconds));
}

ffi::Array<ffi::Tensor> Executor::Take(int64_t id) {
  RefuseFork();
  RequestPtr request = desk_->Remove(id, /*must_be_done=*/true);
  if (request->failure) throw ffi::Error("RuntimeError", *request->failure, "");
  return std::move(request->outputs);
}

bool Executor::Cancel(int64_t id) {
  RefuseFork();
  return desk_->Cancel(desk_->Find(id));
}

void Executor::Forget(int64_t id) {
  RefuseFork();
  desk_->Cancel(desk_->Remove(id, /*must_be_done=*/false));
}

bool Executor::Retire(double seconds) {
  RefuseFork();
  return desk_->Retire(tvm_hetero::Wait(seconds));
}

int64_t Executor::NextDone(double seconds) {
  RefuseFork();
  return desk_->NextDone(tvm_hetero::Wait(seconds));
}

}  // namespace tvm_hetero
