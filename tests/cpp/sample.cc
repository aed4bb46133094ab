#include "sample.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <new>
#include <utility>

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

/*! \brief The trouble that some inputs ask for. */
void MakeTrouble(const float* x) {
  if (x[0] == kThrows) TVM_FFI_THROW(ValueError) << "an input that is not wanted";
  if (x[0] == kGated) TheGate().Pass();
}

/*! \brief A kernel as TVM's are: tensors that it reads, and last the one that it writes. */
template <typename Compute>
ffi::Function Kernel(Compute compute) {
  return ffi::Function::FromPacked([compute](const ffi::AnyView* args, int32_t count, ffi::Any*) {
    const float* a = Floats(args[0].cast<DLTensor*>());
    const float* b = Floats(args[count - 2].cast<DLTensor*>());
    float* out = Floats(args[count - 1].cast<DLTensor*>());
    for (int64_t i = 0; i < kFloats; ++i) out[i] = compute(a[i], b[i]);
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

/*! \brief The plan with so much memory for the host; less than 0: it is not said. */
std::string PlanWithMemory(int64_t memory) {
  std::string plan = kSamplePlan;
  const std::string place = "\"dl_id\": 0";
  if (memory < 0) return plan;
  return plan.insert(plan.find(place) + place.size(), ", \"memory\": " + std::to_string(memory));
}

Sample::Sample(int64_t memory)
    : module_(ffi::Function::GetGlobalRequired("tvm_hetero.create_executor")(
                  ffi::String(PlanWithMemory(memory)))
                  .cast<ffi::Module>()) {
  ffi::Module library(ffi::make_object<KernelLibrary>());
  for (int worker : {0, 1, 2}) Call("set_library", worker, library);
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
