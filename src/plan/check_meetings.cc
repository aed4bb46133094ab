#include "plan/check_meetings.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <string>

#include "plan/plan_text.h"
#include "support/device_name.h"

namespace tvm_hetero {
namespace {

/*! \brief Why a worker cannot take part in a meeting; empty if it can. */
std::string Unfit(const Plan& plan, const WorkerPlan& meeting, int thread) {
  if (thread < 0 || static_cast<size_t>(thread) >= plan.workers.size()) {
    return "is not there: there are " + std::to_string(plan.workers.size()) + " workers";
  }
  const WorkerPlan& worker = plan.workers[thread];
  if (!worker.threads.empty()) return "is a meeting itself";
  if (worker.role != Role::kCompute) return "copies";
  if (worker.device != meeting.device) return "is on another device";
  if (worker.cores.size() > 1) return "has several cores";
  const auto& threads = meeting.threads;
  if (std::count(threads.begin(), threads.end(), thread) > 1) return "is there twice";
  return "";
}

/*! \brief Why a worker cannot be a meeting; empty if it can. */
std::string UnfitMeeting(const Plan& plan, const WorkerPlan& worker) {
  if (worker.role != Role::kCompute) return "it copies";
  if (worker.alike) return "it is said to be alike to another";
  if (!IsCpu(plan.devices[worker.device].device)) return "it is not on a CPU";
  for (int thread : worker.threads) {
    const std::string why = Unfit(plan, worker, thread);
    if (!why.empty()) return "worker " + std::to_string(thread) + " " + why;
  }
  return "";
}

}  // namespace

void CheckMeetings(const Plan& plan) {
  for (size_t i = 0; i < plan.workers.size(); ++i) {
    if (plan.workers[i].threads.empty()) continue;
    const std::string why = UnfitMeeting(plan, plan.workers[i]);
    if (why.empty()) continue;
    TVM_FFI_THROW(ValueError) << "plan: " << Quoted("workers", i, plan.workers[i].name)
                              << " is a meeting of others, but " << why;
  }
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const StepPlan& step = plan.steps[i];
    if (step.kind == StepKind::kKernels || !plan.IsMeeting(step.worker)) continue;
    TVM_FFI_THROW(ValueError) << "plan: " << Quoted("steps", i, step.name)
                              << " is no kernels step, expected a worker with a thread of its own";
  }
}

}  // namespace tvm_hetero
