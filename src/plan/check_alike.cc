#include "plan/check_alike.h"

#include <tvm/ffi/error.h>

#include <string>

#include "plan/limits.h"
#include "plan/plan_text.h"
#include "support/device_name.h"

namespace tvm_hetero {
namespace {

/*! \brief Why a worker cannot run the steps of the first one of its kind; empty if it can. */
std::string Unlike(const Plan& plan, const WorkerPlan& worker, const WorkerPlan& first) {
  if (worker.alike != first.alike) return "that one is not the first of its kind";
  if (worker.device != first.device) return "they are on two devices";
  if (!IsCpu(plan.devices[worker.device].device)) return "they are not on a CPU";
  if (worker.role != Role::kCompute) return "it copies";
  if (worker.cores.size() != first.cores.size()) return "they have not equally many cores";
  return "";
}

}  // namespace

void CheckAlike(const Plan& plan) {
  if (plan.steps.size() >= kMostSteps) {
    TVM_FFI_THROW(ValueError) << "plan: there are " << plan.steps.size()
                              << " steps, expected fewer than " << kMostSteps;
  }
  for (size_t i = 0; i < plan.workers.size(); ++i) {
    const WorkerPlan& worker = plan.workers[i];
    if (!worker.alike) continue;
    const auto first = static_cast<size_t>(*worker.alike);
    const std::string why = first > i ? "it stands behind it"
                                      : Unlike(plan, worker, plan.workers[first]);
    if (why.empty()) continue;
    TVM_FFI_THROW(ValueError) << "plan: " << Quoted("workers", i, worker.name) << " is said to be "
                              << "alike to worker " << first << ", but " << why;
  }
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const StepPlan& step = plan.steps[i];
    if (step.kind != StepKind::kCopy || !plan.workers[step.worker].alike) continue;
    TVM_FFI_THROW(ValueError) << "plan: " << Quoted("steps", i, step.name) << " copies, expected "
                              << "a worker for it that has no other alike";
  }
}

}  // namespace tvm_hetero
