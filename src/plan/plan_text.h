/*!
 * \file plan/plan_text.h
 * \brief Rows of a plan as error messages name them.
 */
#ifndef TVM_HETERO_PLAN_PLAN_TEXT_H_
#define TVM_HETERO_PLAN_PLAN_TEXT_H_

#include <tvm_hetero/plan.h>

#include <string>

namespace tvm_hetero {

/*! \brief "slots[2] 't2'". */
inline std::string Quoted(const std::string& kind, size_t index, const std::string& name) {
  return kind + "[" + std::to_string(index) + "] '" + name + "'";
}

/*! \brief "steps[1] 'big/seg0': calls[3] '7.conv2d'". */
inline std::string QuotedCall(const Plan& plan, size_t step, size_t call) {
  const StepPlan& row = plan.steps[step];
  return Quoted("steps", step, row.name) + ": " + Quoted("calls", call, row.calls[call].task);
}

/*! \brief "steps[1] 'big/seg0': calls[3] '7.conv2d': args[0]". */
inline std::string QuotedArg(const Plan& plan, size_t step, size_t call, size_t arg) {
  return QuotedCall(plan, step, call) + ": args[" + std::to_string(arg) + "]";
}

}  // namespace tvm_hetero
#endif  // TVM_HETERO_PLAN_PLAN_TEXT_H_
