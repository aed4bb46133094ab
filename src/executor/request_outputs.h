/*!
 * \file executor/request_outputs.h
 * \brief The outputs of a batch that has ended.
 */
#ifndef TVM_HETERO_EXECUTOR_REQUEST_OUTPUTS_H_
#define TVM_HETERO_EXECUTOR_REQUEST_OUTPUTS_H_

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>

#include "executor/state.h"

namespace tvm_hetero {

/*!
 * \brief The tensors of a plan's outputs in the shapes that the plan gives them, without a copy;
 *        an axis whose length was counted is as long as that.
 */
ffi::Array<ffi::Tensor> CollectOutputs(const Plan& plan, const ExecutorState& state,
                                       const Frame& frame);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_REQUEST_OUTPUTS_H_
