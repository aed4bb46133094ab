/*!
 * \file executor/numerics.h
 * \brief Finds values that are no finite numbers.
 */
#ifndef TVM_HETERO_EXECUTOR_NUMERICS_H_
#define TVM_HETERO_EXECUTOR_NUMERICS_H_

#include <dlpack/dlpack.h>
#include <tvm_hetero/plan.h>

#include <cstdint>
#include <optional>

namespace tvm_hetero {

struct NonFinite {
  int64_t count;
  int64_t first;  //!< flat index
  double value;   //!< there: NaN or an infinity
};

/*!
 * \brief The values of a compact tensor that are NaN or infinite.
 *
 * float16, bfloat16, float32 and float64 are looked at; all other types are taken for finite.
 * Memory of a device is copied to the host first, after the thread's stream on it has been waited for.
 */
std::optional<NonFinite> FindNonFinite(const DLTensor& tensor);

/*!
 * \brief Look at what a kernel has written.
 * \param call The call, for the message.
 * \param args Its arguments.
 * \throws NumericsError telling the output, how many values of it, the first one, and whether the
 *         kernel's inputs were finite (or it got the trouble from elsewhere).
 */
void CheckFinite(const CallPlan& call, const DLTensor* args);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_NUMERICS_H_
