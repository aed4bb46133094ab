#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/error.h>
#include <tvm_hetero/executor.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "board.h"
#include "device_api.h"
#include "device_name.h"
#include "executor_internal.h"
#include "program.h"
#include "worker.h"

namespace tvm_hetero {
namespace {

// How long a worker spins before it sleeps. Waking a sleeping thread takes 5 to 50 us. Between runs
// it spins about that long, which loses at most a factor of two against knowing the length of the
// wait (the ski rental argument). Within a run its core is its own and the wait is on the run's
// critical path, so it spins much longer: only a wait beside which waking is little is slept.
constexpr Spin kSpin{std::chrono::microseconds{50}, std::chrono::milliseconds{2}};

/*! \brief A worker may spin only where it keeps nobody from working. */
bool MaySpin(const Plan& plan, size_t worker) {
  const std::vector<int>& cores = plan.workers[worker].cores;
  if (cores.empty()) return std::thread::hardware_concurrency() > plan.workers.size();
  for (size_t other = 0; other < plan.workers.size(); ++other) {
    if (other == worker) continue;
    for (int core : plan.workers[other].cores) {
      if (std::find(cores.begin(), cores.end(), core) != cores.end()) return false;
    }
  }
  return true;
}

template <typename Row>
const Row& RowAt(const std::vector<Row>& rows, int64_t index, const char* kind) {
  if (index < 0 || static_cast<size_t>(index) >= rows.size()) {
    TVM_FFI_THROW(IndexError) << kind << " " << index << " was asked for, but the plan has "
                              << rows.size() << " (numbered from 0)";
  }
  return rows[index];
}

std::string TensorType(const ffi::Tensor& tensor) {
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

template <typename Row>
std::string EmptyOf(const std::vector<Row>& rows, const std::vector<Slot>& slots) {
  std::string names;
  for (const Row& row : rows) {
    if (slots[row.slot].tensor == nullptr) names += (names.empty() ? "'" : ", '") + row.name + "'";
  }
  return names;
}

}  // namespace

Executor::Executor(Plan plan)
    : plan_(std::move(plan)),
      program_(std::make_unique<Program>(MakeProgram(plan_))),
      board_(std::make_unique<Board>(*program_, plan_.steps.size())),
      process_(getpid()) {
  for (const DevicePlan& device : plan_.devices) RequireRuntime(device.device);
  for (size_t i = 0; i < plan_.workers.size(); ++i) {
    workers_.push_back(
        std::make_unique<Worker>(plan_, *program_, static_cast<int>(i), board_.get()));
  }
  try {
    for (size_t i = 0; i < workers_.size(); ++i) {
      workers_[i]->Start(MaySpin(plan_, i) ? kSpin : Spin{});
    }
  } catch (...) {
    JoinWorkers();  // the destructor of a half-made object is not called
    throw;
  }
}

Executor::~Executor() { JoinWorkers(); }

void Executor::JoinWorkers() {
  board_->closing.store(true);
  board_->failed.store(true);  // for a stream that is still open
  board_->UnparkWorkers();
  for (auto& worker : workers_) worker->Join();
}

void Executor::Stop() {
  if (Forked()) return;
  // First the flag that StartRun reads after it has reset `failed`: one of the two sees the other.
  stopped_.store(true);
  board_->failed.store(true);
  board_->UnparkWorkers();
}

bool Executor::Forked() const { return getpid() != process_; }

// ---------------------------------------------------------------------------- what goes in

void Executor::SetFunctions(const ffi::Array<ffi::Any>& functions) {
  Exclusive exclusive(this);
  if (functions.size() != plan_.steps.size()) {
    TVM_FFI_THROW(ValueError) << functions.size() << " functions were given, expected one for each "
                              << "of the " << plan_.steps.size() << " steps (None for copies)";
  }
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    bool is_call = plan_.steps[i].kind == StepKind::kCall;
    if (!is_call || functions[i].type_index() == ffi::TypeIndex::kTVMFFIFunction) continue;
    TVM_FFI_THROW(ValueError) << "step '" << plan_.steps[i].name << "' was given "
                              << functions[i].GetTypeKey() << ", expected a function ('"
                              << plan_.steps[i].function << "')";
  }
  for (auto& worker : workers_) {
    const std::vector<Instruction>& instructions = worker->instructions();
    for (size_t position = 0; position < instructions.size(); ++position) {
      int step = instructions[position].step;
      if (plan_.steps[step].kind != StepKind::kCall) continue;
      worker->SetFunction(position, functions[step].cast<ffi::Function>());
    }
  }
  has_functions_ = true;
}

void Executor::SetConstant(int64_t index, const ffi::Tensor& tensor) {
  Exclusive exclusive(this);
  const ConstantPlan& constant = RowAt(plan_.constants, index, "constant");
  CheckPlace(tensor, plan_.DeviceOfSlot(constant.slot), "constant '" + constant.name + "'");
  board_->home.slots[constant.slot].tensor = tensor;
}

void Executor::SetInput(int64_t index, const ffi::Tensor& tensor) {
  Exclusive exclusive(this);
  CheckInput(index, tensor);
  board_->home.slots[plan_.inputs[index].slot].tensor = tensor;
}

void Executor::CheckInput(int64_t index, const ffi::Tensor& tensor) const {
  const InputPlan& input = RowAt(plan_.inputs, index, "input");
  std::string what = "input '" + input.name + "'";
  ffi::ShapeView shape = tensor.shape();
  if (tensor.dtype() != input.dtype ||
      !std::equal(shape.begin(), shape.end(), input.shape.begin(), input.shape.end())) {
    TVM_FFI_THROW(ValueError) << what << " was given as " << TensorType(tensor) << ", expected "
                              << TypeName(input.dtype, input.shape.data(), input.shape.size());
  }
  CheckPlace(tensor, plan_.DeviceOfSlot(input.slot), what);
}

// ---------------------------------------------------------------------------- running

double Executor::Run() {
  Exclusive exclusive(this);
  CheckReady();
  CheckInputsSet();
  return RunOnce();
}

std::vector<double> Executor::RunRepeated(int64_t count) {
  Exclusive exclusive(this);
  if (count < 0) TVM_FFI_THROW(ValueError) << count << " runs were asked for, expected 0 or more";
  CheckReady();
  CheckInputsSet();
  std::vector<double> seconds;
  auto next_look = Clock::now() + kSignalPeriod;
  for (int64_t i = 0; i < count; ++i) {
    seconds.push_back(RunOnce());
    if (Clock::now() < next_look) continue;  // each look takes Python's lock
    if (TVMFFIEnvCheckSignals() != 0) throw ffi::EnvErrorAlreadySet();
    next_look = Clock::now() + kSignalPeriod;
  }
  return seconds;
}

void Executor::CheckReady() const {
  if (stopped_.load()) TVM_FFI_THROW(RuntimeError) << "the executor is closed: make a new one";
  if (!has_functions_) TVM_FFI_THROW(RuntimeError) << "no functions: call set_functions first";
  std::string constants = EmptyOf(plan_.constants, board_->home.slots);
  if (!constants.empty()) TVM_FFI_THROW(RuntimeError) << "constants not set: " << constants;
}

void Executor::CheckInputsSet() const {
  std::string inputs = EmptyOf(plan_.inputs, board_->home.slots);
  if (!inputs.empty()) TVM_FFI_THROW(RuntimeError) << "inputs not set: " << inputs;
}

double Executor::RunOnce() {
  EmptySlots();
  StartRun(++number_);
  bool interrupted = !AwaitEnd();
  double seconds = std::chrono::duration<double>(Clock::now() - board_->start).count();
  if (interrupted || board_->failed.load()) {
    EmptySlots();
    if (interrupted) throw ffi::EnvErrorAlreadySet();
    throw FirstError();
  }
  has_outputs_ = true;
  return seconds;
}

void Executor::StartRun(uint64_t number) {
  for (auto& worker : workers_) worker->TakeError();  // of an interrupted run
  board_->failed.store(false);
  if (stopped_.load()) board_->failed.store(true);
  board_->unfinished.store(static_cast<int>(workers_.size()));
  last_was_stream_ = board_->streaming;
  board_->start = Clock::now();
  board_->run.store(number);
  board_->UnparkWorkers();
}

/*! \brief Sleep until all workers are through; false if Ctrl-C cut the run short. */
bool Executor::AwaitEnd() {
  // No spinning: the cores are the workers'.
  bool interrupted = false;
  auto ended = [this] { return board_->unfinished.load() == 0; };
  while (!board_->driver.AwaitFor(kSignalPeriod, ended)) {
    if (interrupted || TVMFFIEnvCheckSignals() == 0) continue;
    interrupted = true;
    board_->failed.store(true);
    board_->UnparkWorkers();
  }
  return !interrupted;
}

/*! \brief Give back all that steps have made. */
void Executor::EmptySlots() {
  has_outputs_ = false;
  for (size_t i = 0; i < plan_.slots.size(); ++i) {
    if (program_->slots[i].made_by_step) board_->home.slots[i].tensor.reset();
  }
}

/*! \brief What to tell of a failed run. Two workers may fail in one: the earlier batch counts, then
 *         the earlier step of the plan. */
ffi::Error Executor::FirstError() {
  auto earlier = [](const StepError& a, const StepError& b) {
    return std::tie(a.batch, a.step) < std::tie(b.batch, b.step);
  };
  std::optional<StepError> first;
  for (auto& worker : workers_) {
    std::optional<StepError> error = worker->TakeError();
    if (error && (!first || earlier(*error, *first))) first = std::move(error);
  }
  if (!first) return ffi::Error("RuntimeError", "the executor was closed during the run", "");
  const StepPlan& step = plan_.steps[first->step];
  std::string text = "step '" + step.name + "' on worker '" + plan_.workers[step.worker].name +
                     "' failed: " + first->message;
  if (board_->streaming) text = "batch " + std::to_string(first->batch) + " of the stream: " + text;
  return ffi::Error("RuntimeError", text, "");
}

// ---------------------------------------------------------------------------- what comes out

namespace {

/*! \brief A compact tensor in another shape, without moving it. */
ffi::Tensor InShape(const ffi::Tensor& tensor, const std::vector<int64_t>& shape,
                    const std::string& name) {
  int64_t elements = 1;
  std::vector<int64_t> strides(shape.size());
  strides.reserve(1);  // never null, which as_strided refuses even for no axes at all
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = elements;
    elements *= shape[axis];
  }
  if (elements != tensor.numel() || !tensor.IsContiguous()) {
    TVM_FFI_THROW(RuntimeError) << "output '" << name << "' has " << tensor.numel()
                                << " elements" << (tensor.IsContiguous() ? "" : " (strided)")
                                << ", its shape in the plan " << elements;
  }
  return tensor.as_strided(ffi::ShapeView(shape.data(), shape.size()),
                           ffi::ShapeView(strides.data(), strides.size()));
}

}  // namespace

ffi::Tensor Executor::Output(int64_t index) const {
  Exclusive exclusive(this);
  const OutputPlan& output = RowAt(plan_.outputs, index, "output");
  if (!has_outputs_) {
    TVM_FFI_THROW(RuntimeError) << "output '" << output.name
                                << "' is not there: no run has succeeded since the last start";
  }
  return OutputIn(board_->home, index);
}

ffi::Tensor Executor::OutputIn(const Frame& frame, int64_t index) const {
  const OutputPlan& output = plan_.outputs[index];
  const Frame& place = program_->slots[output.slot].is_constant ? board_->home : frame;
  ffi::Tensor tensor = place.slots[output.slot].tensor.cast<ffi::Tensor>();
  return output.shape ? InShape(tensor, *output.shape, output.name) : tensor;
}

std::vector<double> Executor::Trace() const {
  Exclusive exclusive(this);
  std::vector<double> times(2 * plan_.steps.size(), std::numeric_limits<double>::quiet_NaN());
  for (const auto& worker : workers_) {
    const std::vector<Instruction>& instructions = worker->instructions();
    for (size_t position = 0; position < instructions.size(); ++position) {
      const Span& span = worker->spans()[position];
      times[2 * instructions[position].step] = span.start;
      times[2 * instructions[position].step + 1] = span.end;
    }
  }
  if (last_was_stream_) {
    double origin = std::numeric_limits<double>::infinity();
    for (double time : times) origin = std::isnan(time) ? origin : std::min(origin, time);
    for (double& time : times) time -= origin;
  }
  return times;
}

std::vector<int64_t> Executor::FilledSlots() const {
  Exclusive exclusive(this);
  std::vector<int64_t> filled;
  for (size_t i = 0; i < plan_.slots.size(); ++i) {
    // A frame of a stream is to hold nothing at all once the stream has ended.
    bool is_filled = program_->slots[i].made_by_step && board_->home.slots[i].tensor != nullptr;
    for (const Frame& frame : board_->frames) {
      is_filled = is_filled || frame.slots[i].tensor != nullptr;
    }
    if (is_filled) filled.push_back(static_cast<int64_t>(i));
  }
  return filled;
}

}  // namespace tvm_hetero
