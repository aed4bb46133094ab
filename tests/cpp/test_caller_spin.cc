// Who waits for a short request spins, unless a worker needs the core; and is served either way.
#include <tvm_hetero/plan.h>

#include <string>
#include <thread>

#include "executor/caller_spin.h"
#include "executor/program.h"
#include "executor/thread_setup.h"
#include "harness.h"
#include "sample.h"

namespace tvm_hetero::tests {
namespace {

/*! \brief One worker, on `cores`, and one step of it, which calls a function. */
std::string OneStep(const std::string& cores) {
  return R"({"format": "tvm-hetero/plan/2", "batch": 1,
    "devices": [{"name": "cpu", "dl_type": 1, "dl_id": 0}],
    "workers": [{"name": "w", "device": 0, "cores": [)" +
         cores + R"(], "role": "compute"}],
    "slots": [{"name": "x", "device": 0}, {"name": "y", "device": 0}],
    "inputs": [{"name": "x", "slot": 0, "shape": [16], "dtype": "float32"}],
    "constants": [], "outputs": [{"name": "y", "slot": 1}],
    "steps": [{"kind": "call", "name": "s", "function": "identity", "worker": 0,
               "ins": [0], "outs": [1]}]})";
}

bool IsAllowed(const std::string& cores, double last) {
  const Plan plan = ParsePlan(OneStep(cores));
  CallerSpin spin(plan, MakeProgram(plan));
  CHECK(!spin.IsAllowed());  // nothing is known yet
  spin.Note(last);
  return spin.IsAllowed();
}

TEST(ACallerSpinsWhereTheLastRequestWasShortAndACoreIsFree) {
  const bool has_two = std::thread::hardware_concurrency() > 1;
  CHECK(IsAllowed("", 5e-6) == has_two);
  CHECK(!IsAllowed("", 5e-3));
}

TEST(ACallerDoesNotSpinOnAWorkersCore) {
  std::string all;
  for (int core : AllowedCores()) all += (all.empty() ? "" : ", ") + std::to_string(core);
  CHECK(!IsAllowed(all, 5e-6));
  CHECK(IsAllowed("100000", 5e-6) == (CurrentCore() >= 0));
}

TEST(ServedWhileTheCallerSpins) {
  auto module = ffi::Function::GetGlobalRequired("tvm_hetero.create_executor")(
                    ffi::String(OneStep("")))
                    .cast<ffi::Module>();
  ffi::Function identity = ffi::Function::GetGlobalRequired("tvm_hetero.identity");
  module->GetFunction("set_functions").value()(ffi::Array<ffi::Any>{identity});
  ffi::Function serve = module->GetFunction("serve").value();
  for (int i = 0; i < 300; ++i) {
    ffi::Array<ffi::Tensor> inputs = {Filled(static_cast<float>(i))};
    auto served = serve(inputs, 0.0, -1.0, 0.0).cast<ffi::Tensor>();  // one, without an array
    CHECK(served.data_ptr() == inputs[0].data_ptr());
  }
}

}  // namespace
}  // namespace tvm_hetero::tests
