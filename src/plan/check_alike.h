/*!
 * \file plan/check_alike.h
 * \brief Checks of workers that run each other's steps; a part of CheckPlan.
 */
#ifndef TVM_HETERO_PLAN_CHECK_ALIKE_H_
#define TVM_HETERO_PLAN_CHECK_ALIKE_H_

#include <tvm_hetero/plan.h>

namespace tvm_hetero {

/*!
 * \brief Check that workers said to be alike can run each other's steps; indices are checked.
 * \throws ValueError
 */
void CheckAlike(const Plan& plan);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_PLAN_CHECK_ALIKE_H_
