// The executor as a tvm-ffi module, so that Python, C++ and everything else that speaks tvm-ffi can
// make and use one:
//
//   tvm_hetero.create_executor(plan: str) -> Module with the functions in GetFunction below.
//   tvm_hetero.create_executor_after(plan: str, before: Module) -> one that takes over from another.
#include <tvm/ffi/cast.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm_hetero/executor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/pace.h"

namespace tvm_hetero {
namespace {

namespace ffi = tvm::ffi;

template <typename T>
ffi::Array<T> ToArray(const std::vector<T>& values) {
  return ffi::Array<T>(values.begin(), values.end());
}

/*! \brief A single output as it is: looking into an array costs Python as much as a small model. */
ffi::Any Served(std::optional<ffi::Array<ffi::Tensor>> outputs) {
  if (!outputs) return nullptr;
  if (outputs->size() == 1) return (*outputs)[0];
  return *std::move(outputs);
}

/*! \brief ParsePlan on a core on which another executor is at work. */
Plan ParseBeside(const std::string& text) {
  Pace pace(true);
  Plan plan = ParsePlan(text);
  pace.Rest();
  return plan;
}

class ExecutorModule : public ffi::ModuleObj {
 public:
  explicit ExecutorModule(const std::string& plan)
      : executor_(std::make_unique<Executor>(ParsePlan(plan))) {}
  ExecutorModule(const std::string& plan, const ExecutorModule& before)
      : executor_(std::make_unique<Executor>(ParseBeside(plan), *before.executor_)) {}

  ~ExecutorModule() {
    // In a forked process the threads do not exist, and waiting for them would never end. And a
    // worker that frees the last reference (in a step that is Python's) cannot wait for itself. Leave
    // the threads and what they sleep on to the end of the process; those that exist end by themselves.
    if (!executor_->Forked() && !executor_->OnWorker()) return;
    executor_->Stop();
    (void)executor_.release();
  }

  const char* kind() const final { return "tvm_hetero.executor"; }
  int GetPropertyMask() const final { return ffi::Module::kRunnable; }

  ffi::Optional<ffi::Function> GetFunction(const ffi::String& name) final {
    if (name == "set_functions") {
      return Method([](Executor* e, ffi::Array<ffi::Any> functions) { e->SetFunctions(functions); });
    }
    if (name == "set_library") {
      return Method([](Executor* e, int64_t i, ffi::Module module) { e->SetLibrary(i, module); });
    }
    if (name == "set_constant") {
      return Method([](Executor* e, int64_t i, ffi::Tensor tensor) { e->SetConstant(i, tensor); });
    }
    if (ffi::Optional<ffi::Function> found = OfRequests(name)) return found;
    if (ffi::Optional<ffi::Function> found = OfRuns(name)) return found;
    if (name == "stages") return Method([](Executor* e) { return ToArray(e->Stages()); });
    if (name == "frames") return Method([](Executor* e) { return e->Frames(); });
    if (name == "allocations") return Method([](Executor* e) { return e->Allocations(); });
    if (name == "filled_slots") {
      return Method([](Executor* e) { return ToArray(e->FilledSlots()); });
    }
    if (name == "stop") return Method([](Executor* e) { e->Stop(); });
    if (name == "shutdown") return Method([](Executor* e) { e->Shutdown(); });
    return std::nullopt;
  }

 private:
  /*! \brief What any thread may call at any time. */
  ffi::Optional<ffi::Function> OfRequests(const ffi::String& name) {
    if (name == "submit") {
      return Method([](Executor* e, ffi::Array<ffi::Tensor> inputs, double deadline_s,
                       double wait_s, bool notify) {
        return e->Submit(inputs, deadline_s, wait_s, notify);
      });
    }
    if (name == "serve") {
      return Method([](Executor* e, ffi::Array<ffi::Tensor> inputs, double deadline_s,
                       double wait_s, double settle_s) {
        return Served(e->Serve(inputs, deadline_s, wait_s, settle_s));
      });
    }
    if (name == "wait") {
      return Method([](Executor* e, int64_t id, double seconds) { return e->Wait(id, seconds); });
    }
    if (name == "take") return Method([](Executor* e, int64_t id) { return e->Take(id); });
    if (name == "cancel") return Method([](Executor* e, int64_t id) { return e->Cancel(id); });
    if (name == "forget") return Method([](Executor* e, int64_t id) { e->Forget(id); });
    if (name == "watch") {
      return Method([](Executor* e, int64_t capacity) { e->Watch(capacity); });
    }
    if (name == "take_watched") return Method([](Executor* e) { return e->TakeWatched(); });
    if (name == "retire") {
      return Method([](Executor* e, double seconds) { return e->Retire(seconds); });
    }
    if (name == "next_done") {
      return Method([](Executor* e, double seconds) { return e->NextDone(seconds); });
    }
    return std::nullopt;
  }

  /*! \brief What is for one thread that measures. */
  ffi::Optional<ffi::Function> OfRuns(const ffi::String& name) {
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
    if (name == "get_output") return Method([](Executor* e, int64_t i) { return e->Output(i); });
    if (name == "trace") return Method([](Executor* e) { return ToArray(e->Trace()); });
    if (name == "waits") return Method([](Executor* e) { return ToArray(e->Waits()); });
    if (name == "run_by") return Method([](Executor* e) { return ToArray(e->RunBy()); });
    if (name == "kernel_times") {
      return Method([](Executor* e) { return ToArray(e->KernelTimes()); });
    }
    if (name == "profile_kernels") {
      return Method([](Executor* e, bool on) { e->ProfileKernels(on); });
    }
    if (name == "check_numerics") {
      return Method([](Executor* e, bool on) { e->CheckNumerics(on); });
    }
    return std::nullopt;
  }

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
      .def("tvm_hetero.create_executor_after",
           [](const ffi::String& plan, const ffi::Module& before) {
             const auto* executor = dynamic_cast<const ExecutorModule*>(before.get());
             if (executor == nullptr) {
               TVM_FFI_THROW(TypeError) << "expected an executor to take over from, got "
                                        << before->kind();
             }
             return ffi::Module(ffi::make_object<ExecutorModule>(std::string(plan), *executor));
           })
      // The cheapest possible step: what is left of a run's time is the executor's own.
      .def("tvm_hetero.identity", [](const ffi::Tensor& tensor) { return tensor; });
}

}  // namespace tvm_hetero
