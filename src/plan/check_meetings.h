/*!
 * \file plan/check_meetings.h
 * \brief Workers that are meetings of others.
 */
#ifndef TVM_HETERO_PLAN_CHECK_MEETINGS_H_
#define TVM_HETERO_PLAN_CHECK_MEETINGS_H_

#include <tvm_hetero/plan.h>

namespace tvm_hetero {

/*!
 * \brief Check that those who meet are there, have threads, compute, and share a memory. The indices
 *        of steps and devices must have been checked.
 * \throws ValueError
 */
void CheckMeetings(const Plan& plan);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_PLAN_CHECK_MEETINGS_H_
