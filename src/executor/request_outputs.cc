#include "executor/request_outputs.h"

#include <tvm/ffi/error.h>

#include <string>
#include <vector>

namespace tvm_hetero {
namespace {

/*! \brief A compact tensor in another shape, without moving it. */
ffi::Tensor InShape(const ffi::Tensor& tensor, const std::vector<int64_t>& shape,
                    const std::string& name) {
  int64_t elements = 1;
  std::vector<int64_t> strides(shape.size());
  strides.reserve(1);  // never null, which as_strided refuses even for no axes at all
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = elements;
    elements *= shape[axis];
  }
  if (elements != tensor.numel() || !tensor.IsContiguous()) {
    TVM_FFI_THROW(RuntimeError) << "output '" << name << "' has " << tensor.numel()
                                << " elements" << (tensor.IsContiguous() ? "" : " (strided)")
                                << ", its shape in the plan " << elements;
  }
  return tensor.as_strided(ffi::ShapeView(shape.data(), shape.size()),
                           ffi::ShapeView(strides.data(), strides.size()));
}

}  // namespace

ffi::Array<ffi::Tensor> CollectOutputs(const Plan& plan, const ExecutorState& state,
                                       const Frame& frame) {
  ffi::Array<ffi::Tensor> outputs;
  for (const OutputPlan& output : plan.outputs) {
    const ffi::Any& constant = state.constants[output.slot];
    const ffi::Any& held = constant != nullptr ? constant : frame.slots[output.slot].tensor;
    auto tensor = held.cast<ffi::Tensor>();
    outputs.push_back(output.shape ? InShape(tensor, *output.shape, output.name) : tensor);
  }
  return outputs;
}

}  // namespace tvm_hetero
