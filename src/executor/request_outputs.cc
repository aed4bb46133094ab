#include "executor/request_outputs.h"

#include <tvm/ffi/error.h>

#include <string>
#include <vector>

namespace tvm_hetero {
namespace {

/*! \brief The first elements of a compact tensor in a shape, without moving them. */
ffi::Tensor InShape(const ffi::Tensor& tensor, const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  std::vector<int64_t> strides(shape.size());
  strides.reserve(1);  // never null, which as_strided refuses even for no axes at all
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = elements;
    elements *= shape[axis];
  }
  return tensor.as_strided(ffi::ShapeView(shape.data(), shape.size()),
                           ffi::ShapeView(strides.data(), strides.size()));
}

/*! \brief Refuse a tensor that has not as many elements as the plan says. */
void CheckElements(const ffi::Tensor& tensor, const OutputPlan& output) {
  int64_t elements = 1;
  for (int64_t size : *output.shape) elements *= size;
  if (elements != tensor.numel() || !tensor.IsContiguous()) {
    TVM_FFI_THROW(RuntimeError) << "output '" << output.name << "' has " << tensor.numel()
                                << " elements" << (tensor.IsContiguous() ? "" : " (strided)")
                                << ", its shape in the plan " << elements;
  }
}

/*! \brief The length of an axis that was counted while the model ran. */
int64_t LengthOf(const ffi::Tensor& tensor, const OutputPlan& output) {
  int64_t most = (*output.shape)[output.length->axis];
  bool is_number = tensor.numel() == 1 && tensor.dtype().code == kDLInt &&
                   tensor.dtype().bits == 64 && tensor.device().device_type == kDLCPU;
  int64_t length = is_number ? *static_cast<const int64_t*>(tensor.data_ptr()) : -1;
  if (length < 0 || length > most) {
    TVM_FFI_THROW(RuntimeError) << "output '" << output.name << "' has a length of " << length
                                << ", expected 0 to " << most;
  }
  return length;
}

}  // namespace

ffi::Array<ffi::Tensor> CollectOutputs(const Plan& plan, const ExecutorState& state,
                                       const Frame& frame) {
  auto tensor_in = [&](int slot) {
    const ffi::Any& constant = state.constants[slot];
    return (constant != nullptr ? constant : frame.slots[slot].tensor).cast<ffi::Tensor>();
  };
  ffi::Array<ffi::Tensor> outputs;
  for (const OutputPlan& output : plan.outputs) {
    ffi::Tensor tensor = tensor_in(output.slot);
    if (output.shape) {
      CheckElements(tensor, output);
      std::vector<int64_t> shape = *output.shape;
      if (output.length) {
        shape[output.length->axis] = LengthOf(tensor_in(output.length->slot), output);
      }
      tensor = InShape(tensor, shape);
    }
    outputs.push_back(tensor);
  }
  return outputs;
}

}  // namespace tvm_hetero
