/*!
 * \file plan/limits.h
 * \brief How large a plan may be.
 */
#ifndef TVM_HETERO_PLAN_LIMITS_H_
#define TVM_HETERO_PLAN_LIMITS_H_

#include <cstddef>

namespace tvm_hetero {

/*! \brief Steps of a plan must be fewer (CheckPlan): a word holds a position (Progress). */
constexpr size_t kMostSteps = size_t{1} << 20;

}  // namespace tvm_hetero
#endif  // TVM_HETERO_PLAN_LIMITS_H_
