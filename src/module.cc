// The executor as a tvm-ffi module, so that Python, C++ and everything else that speaks tvm-ffi can
// make and use one:
//
//   tvm_hetero.create_executor(plan: str) -> Module with the functions in GetFunction below.
#include <tvm/ffi/cast.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm_hetero/executor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tvm_hetero {
namespace {

namespace ffi = tvm::ffi;

template <typename T>
ffi::Array<T> ToArray(const std::vector<T>& values) {
  return ffi::Array<T>(values.begin(), values.end());
}

class ExecutorModule : public ffi::ModuleObj {
 public:
  explicit ExecutorModule(const std::string& plan)
      : executor_(std::make_unique<Executor>(ParsePlan(plan))) {}

  ~ExecutorModule() {
    // In a forked process the threads do not exist, and waiting for them would never end. Leave
    // them and what they sleep on to the end of the process.
    if (executor_->Forked()) (void)executor_.release();
  }

  const char* kind() const final { return "tvm_hetero.executor"; }
  int GetPropertyMask() const final { return ffi::Module::kRunnable; }

  ffi::Optional<ffi::Function> GetFunction(const ffi::String& name) final {
    if (name == "set_functions") {
      return Method([](Executor* e, ffi::Array<ffi::Any> functions) { e->SetFunctions(functions); });
    }
    if (name == "set_constant") {
      return Method([](Executor* e, int64_t i, ffi::Tensor tensor) { e->SetConstant(i, tensor); });
    }
    if (name == "set_input") {
      return Method([](Executor* e, int64_t i, ffi::Tensor tensor) { e->SetInput(i, tensor); });
    }
    if (name == "run") return Method([](Executor* e) { return e->Run(); });
    if (name == "run_repeated") {
      return Method([](Executor* e, int64_t count) { return ToArray(e->RunRepeated(count)); });
    }
    if (name == "run_stream") {
      return Method([](Executor* e, int64_t count) { return ToArray(e->RunStream(count)); });
    }
    if (name == "open_stream") return Method([](Executor* e) { e->OpenStream(); });
    if (name == "push") {
      return Method([](Executor* e, ffi::Array<ffi::Tensor> inputs) { return e->Push(inputs); });
    }
    if (name == "pop") return Method([](Executor* e) { return e->Pop(); });
    if (name == "close_stream") return Method([](Executor* e) { e->CloseStream(); });
    if (name == "stages") return Method([](Executor* e) { return ToArray(e->Stages()); });
    if (name == "frames") return Method([](Executor* e) { return e->Frames(); });
    if (name == "get_output") {
      return Method([](Executor* e, int64_t i) { return e->Output(i); });
    }
    if (name == "trace") return Method([](Executor* e) { return ToArray(e->Trace()); });
    if (name == "filled_slots") {
      return Method([](Executor* e) { return ToArray(e->FilledSlots()); });
    }
    if (name == "stop") return Method([](Executor* e) { e->Stop(); });
    return std::nullopt;
  }

 private:
  // A function of this module. It holds a reference to the module: no executor ends within a call.
  template <typename Body>
  ffi::Function Method(Body body) {
    return Bind(ffi::GetObjectPtr<ffi::Object>(this), executor_.get(), &Body::operator(), body);
  }

  template <typename Body, typename Result, typename... Args>
  static ffi::Function Bind(ffi::ObjectPtr<ffi::Object> self, Executor* executor,
                            Result (Body::*)(Executor*, Args...) const, Body body) {
    return ffi::Function::FromTyped(
        [self = std::move(self), executor, body](Args... args) -> Result {
          return body(executor, std::move(args)...);
        });
  }

  std::unique_ptr<Executor> executor_;
};

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def("tvm_hetero.create_executor",
           [](const ffi::String& plan) {
             return ffi::Module(ffi::make_object<ExecutorModule>(std::string(plan)));
           })
      // The cheapest possible step: what is left of a run's time is the executor's own.
      .def("tvm_hetero.identity", [](const ffi::Tensor& tensor) { return tensor; });
}

}  // namespace tvm_hetero
