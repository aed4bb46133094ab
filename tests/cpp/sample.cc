#include "sample.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <map>
#include <new>
#include <thread>
#include <utility>

#include "executor/parallel_loops.h"
#include "executor/thread_setup.h"
#include "harness.h"

namespace tvm_hetero::tests {
namespace {

constexpr const char* kSamplePlan = R"({
"format": "tvm-hetero/plan/2", "batch": 1,
"devices": [{"name": "host", "dl_type": 1, "dl_id": 0}, {"name": "far", "dl_type": 1, "dl_id": 1}],
"workers": [
  {"name": "a", "device": 0, "cores": [], "role": "compute", "alike": 0},
  {"name": "b", "device": 0, "cores": [], "role": "compute", "alike": 0},
  {"name": "far", "device": 1, "cores": [], "role": "compute"},
  {"name": "link", "device": 0, "cores": [], "role": "copy"}],
"slots": [
  {"name": "x", "device": 0}, {"name": "w", "device": 0},
  {"name": "s0", "device": 0, "shape": [16], "dtype": "float32"},
  {"name": "s1", "device": 0, "shape": [16], "dtype": "float32"},
  {"name": "p0", "device": 1},
  {"name": "p1", "device": 1, "shape": [16], "dtype": "float32"},
  {"name": "h1", "device": 0},
  {"name": "sum", "device": 0, "shape": [16], "dtype": "float32"},
  {"name": "twice", "device": 0}],
"inputs": [{"name": "x", "slot": 0, "shape": [16], "dtype": "float32"}],
"constants": [{"name": "w", "slot": 1}],
"outputs": [{"name": "sum", "slot": 7}, {"name": "twice", "slot": 8, "shape": [4, 4]}],
"steps": [
  {"kind": "kernels", "name": "stem", "worker": 0, "ins": [0], "outs": [2], "scratch": 128,
   "calls": [
    {"kernel": "add_one", "task": "t0", "written": 1, "args": [
      {"in": 0, "shape": [16], "dtype": "float32"},
      {"scratch": 64, "shape": [16], "dtype": "float32"}]},
    {"kernel": "twice", "task": "t1", "written": 1, "args": [
      {"scratch": 64, "shape": [4, 4], "dtype": "float32"},
      {"out": 0, "shape": [4, 4], "dtype": "float32"}]}]},
  {"kind": "kernels", "name": "left", "worker": 1, "ins": [2, 1], "outs": [3], "scratch": 0,
   "calls": [{"kernel": "add", "task": "t2", "written": 1, "args": [
      {"in": 0, "shape": [16], "dtype": "float32"}, {"in": 1, "shape": [16], "dtype": "float32"},
      {"out": 0, "shape": [16], "dtype": "float32"}]}]},
  {"kind": "copy", "name": "there", "worker": 3, "ins": [2], "outs": [4], "to_device": 1},
  {"kind": "kernels", "name": "right", "worker": 2, "ins": [4], "outs": [5], "scratch": 0,
   "calls": [{"kernel": "thrice", "task": "t3", "written": 1, "args": [
      {"in": 0, "shape": [16], "dtype": "float32"},
      {"out": 0, "shape": [16], "dtype": "float32"}]}]},
  {"kind": "copy", "name": "back", "worker": 3, "ins": [5], "outs": [6], "to_device": 0},
  {"kind": "kernels", "name": "join", "worker": 0, "ins": [3, 6], "outs": [7], "scratch": 0,
   "calls": [{"kernel": "add", "task": "t4", "written": 1, "args": [
      {"in": 0, "shape": [16], "dtype": "float32"}, {"in": 1, "shape": [16], "dtype": "float32"},
      {"out": 0, "shape": [16], "dtype": "float32"}]}]},
  {"kind": "call", "name": "double", "function": "double", "worker": 1, "ins": [6], "outs": [8]}]
})";

struct PlainMemory {
  void AllocData(DLTensor* tensor) {
    tensor->data = std::aligned_alloc(64, (ffi::GetDataSize(*tensor) + 63) / 64 * 64);
    if (tensor->data == nullptr) throw std::bad_alloc();
  }
  void FreeData(DLTensor* tensor) { std::free(tensor->data); }
};

ffi::Tensor NewTensor() {
  return ffi::Tensor::FromNDAlloc(PlainMemory(), ffi::ShapeView({kFloats}),
                                  DLDataType{kDLFloat, 32, 1}, DLDevice{kDLCPU, 0});
}

float* Floats(const DLTensor* tensor) {
  return reinterpret_cast<float*>(static_cast<char*>(tensor->data) + tensor->byte_offset);
}

/*! \brief A piece of a loop that wants two threads: waits until the other piece is in work too. */
int MeetInPiece(int, ParallelEnvironment*, void* data) {
  auto* here = static_cast<std::atomic<int>*>(data);
  here->fetch_add(1);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (here->load() < 2) {
    if (std::chrono::steady_clock::now() > limit) return -1;
    std::this_thread::yield();
  }
  return 0;
}

/*! \brief The trouble that some inputs ask for. */
void MakeTrouble(const float* x) {
  std::atomic<int> here{0};
  if (x[0] == kTogether) LaunchParallelLoop(MeetInPiece, &here, 2);
  if (x[0] == kThrows) TVM_FFI_THROW(ValueError) << "an input that is not wanted";
  if (x[0] == kGated) TheGate().Pass();
}

/*! \brief What a kernel's parallel loop is given. */
template <typename Compute>
struct Operands {
  Compute compute;
  const float* a;
  const float* b;
  float* out;

  static int RunPiece(int piece, ParallelEnvironment* environment, void* data) {
    auto* self = static_cast<Operands*>(data);
    const int64_t pieces = environment->pieces;
    const int64_t end = kFloats * (piece + 1) / pieces;
    for (int64_t i = kFloats * piece / pieces; i < end; ++i) {
      self->out[i] = self->compute(self->a[i], self->b[i]);
    }
    return 0;
  }
};

/*! \brief A kernel as TVM's are: tensors that it reads, and last the one that it writes. */
template <typename Compute>
ffi::Function Kernel(Compute compute) {
  return ffi::Function::FromPacked([compute](const ffi::AnyView* args, int32_t count, ffi::Any*) {
    Operands<Compute> operands{compute, Floats(args[0].cast<DLTensor*>()),
                               Floats(args[count - 2].cast<DLTensor*>()),
                               Floats(args[count - 1].cast<DLTensor*>())};
    LaunchParallelLoop(Operands<Compute>::RunPiece, &operands, 0);
  });
}

ffi::Function FirstKernel() {
  return ffi::Function::FromPacked([](const ffi::AnyView* args, int32_t, ffi::Any*) {
    const float* x = Floats(args[0].cast<DLTensor*>());
    float* out = Floats(args[1].cast<DLTensor*>());
    MakeTrouble(x);
    for (int64_t i = 0; i < kFloats; ++i) out[i] = x[i] + 1;
    if (x[0] == kNotFinite) out[3] = std::numeric_limits<float>::quiet_NaN();
  });
}

class KernelLibrary : public ffi::ModuleObj {
 public:
  const char* kind() const final { return "test_kernels"; }
  int GetPropertyMask() const final { return ffi::Module::kRunnable; }
  ffi::Optional<ffi::Function> GetFunction(const ffi::String& name) final {
    static const std::map<std::string, ffi::Function> kernels = {
        {"add_one", FirstKernel()},
        {"twice", Kernel([](float a, float) { return 2 * a; })},
        {"thrice", Kernel([](float a, float) { return 3 * a; })},
        {"add", Kernel([](float a, float b) { return a + b; })},
    };
    auto found = kernels.find(std::string(name));
    if (found == kernels.end()) return std::nullopt;
    return found->second;
  }
};

ffi::Function Double() {
  return ffi::Function::FromTyped([](ffi::Tensor in) {
    ffi::Tensor out = NewTensor();
    for (int64_t i = 0; i < kFloats; ++i) {
      Floats(out.GetDLTensorPtr())[i] = 2 * Floats(in.GetDLTensorPtr())[i];
    }
    return out;
  });
}

bool IsFilledWith(const ffi::Tensor& tensor, float value) {
  const float* values = Floats(tensor.GetDLTensorPtr());
  return std::all_of(values, values + kFloats, [&](float v) { return v == value; });
}

}  // namespace

void Gate::Close() {
  std::lock_guard<std::mutex> lock(mutex_);
  open_ = false;
}

void Gate::Open() {
  std::lock_guard<std::mutex> lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

void Gate::Pass() {
  std::unique_lock<std::mutex> lock(mutex_);
  ++waiting_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return open_; });
  --waiting_;
}

void Gate::AwaitArrival() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return waiting_ > 0; });
}

Gate& TheGate() {
  static Gate gate;
  return gate;
}

ffi::Tensor Filled(float value) {
  ffi::Tensor tensor = NewTensor();
  std::fill_n(Floats(tensor.GetDLTensorPtr()), kFloats, value);
  return tensor;
}

Fault::Fault(const std::string& kind, int64_t nth) : kind_(kind) {
  ffi::Function::GetGlobalRequired("tvm_hetero.inject_fault")(ffi::String(kind), nth);
}

Fault::~Fault() {
  ffi::Function::GetGlobalRequired("tvm_hetero.inject_fault")(ffi::String(kind_), 0);
}

namespace {

/*! \brief Put a text into the plan behind another one. */
void Insert(std::string* plan, const std::string& behind, const std::string& text) {
  plan->insert(plan->find(behind) + behind.size(), text);
}

void MoveToMeeting(std::string* plan, const std::string& step) {
  const std::string before = "\"" + step + "\", \"worker\": ";
  plan->replace(plan->find(before) + before.size(), 1, "4");
}

void Pin(std::string* plan, const std::string& worker, int core) {
  Insert(plan, "\"name\": \"" + worker + "\", \"device\": 0, \"cores\": [", std::to_string(core));
}

/*! \brief The plan with so much memory for the host (less than 0: it is not said), and a meeting. */
std::string PlanWith(int64_t memory, Meeting meeting, Cores cores) {
  std::string plan = kSamplePlan;
  if (cores == Cores::kPinned) {
    Pin(&plan, "a", AllowedCores().front());
    Pin(&plan, "b", AllowedCores().back());
  }
  if (memory >= 0) Insert(&plan, "\"dl_id\": 0", ", \"memory\": " + std::to_string(memory));
  if (meeting == Meeting::kNone) return plan;
  Insert(&plan, "\"role\": \"copy\"}", R"(, {"name": "ab", "device": 0, "cores": [],
                                            "role": "compute", "threads": [0, 1]})");
  MoveToMeeting(&plan, "stem");
  MoveToMeeting(&plan, "join");
  return plan;
}

ffi::Module Create(const std::string& plan, const Sample* before) {
  const std::string name = "tvm_hetero.create_executor";
  const ffi::String text(plan);
  const ffi::Any made =
      before == nullptr
          ? ffi::Function::GetGlobalRequired(name)(text)
          : ffi::Function::GetGlobalRequired(name + "_after")(text, before->module());
  return made.cast<ffi::Module>();
}

}  // namespace

Sample::Sample(int64_t memory, Meeting meeting, Cores cores, const Sample* before)
    : module_(Create(PlanWith(memory, meeting, cores), before)) {
  ffi::Module library(ffi::make_object<KernelLibrary>());
  for (int worker : {0, 1, 2}) Call("set_library", worker, library);
  if (meeting == Meeting::kOfBoth) Call("set_library", 4, library);
  ffi::Array<ffi::Any> functions(7, ffi::Any(nullptr));
  functions.Set(6, Double());
  Call("set_functions", functions);
  Call("set_constant", 0, Filled(kWeight));
}

int64_t Sample::Submit(const ffi::Tensor& x, double deadline, double wait, bool notify) {
  return Call("submit", ffi::Array<ffi::Tensor>{x}, deadline, wait, notify).cast<int64_t>();
}

std::optional<ffi::Array<ffi::Tensor>> Sample::Serve(const ffi::Tensor& x, double deadline,
                                                     double wait, double settle) {
  ffi::Array<ffi::Tensor> inputs = {x};
  ffi::Any served = Call("serve", inputs, deadline, wait, settle);
  if (served == nullptr) return std::nullopt;
  return served.cast<ffi::Array<ffi::Tensor>>();
}

bool Sample::Wait(int64_t id, double seconds) { return Call("wait", id, seconds).cast<bool>(); }

ffi::Array<ffi::Tensor> Sample::Take(int64_t id) {
  return Call("take", id).cast<ffi::Array<ffi::Tensor>>();
}

void Sample::CheckOutputs(const ffi::Array<ffi::Tensor>& outputs, float x) {
  CHECK(outputs.size() == 2);
  CHECK(IsFilledWith(outputs[0], 8 * (x + 1) + kWeight));
  CHECK(IsFilledWith(outputs[1], 12 * (x + 1)));
  CHECK(outputs[1].ndim() == 2);
}

void Sample::CheckServes(float x) {
  std::string error = Outcome(Submit(Filled(x)), x);
  Check(error.empty(), "expected outputs, got: " + error, __LINE__);
}

std::string Sample::Outcome(int64_t id, float x) {
  ffi::Array<ffi::Tensor> outputs;
  CHECK(id > 0);
  CHECK(Wait(id));
  try {
    outputs = Take(id);
  } catch (const std::exception& error) {
    CHECK(std::string(error.what()) != "");
    return error.what();
  }
  CheckOutputs(outputs, x);
  return "";
}

}  // namespace tvm_hetero::tests
