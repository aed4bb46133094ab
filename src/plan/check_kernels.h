/*!
 * \file plan/check_kernels.h
 * \brief Checks of the memory that kernels are given; a part of CheckPlan.
 */
#ifndef TVM_HETERO_PLAN_CHECK_KERNELS_H_
#define TVM_HETERO_PLAN_CHECK_KERNELS_H_

#include <tvm_hetero/plan.h>

namespace tvm_hetero {

/*!
 * \brief Check each argument of each kernel of a plan whose indices and shapes are checked.
 * \throws ValueError
 */
void CheckKernels(const Plan& plan);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_PLAN_CHECK_KERNELS_H_
