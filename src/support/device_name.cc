#include "support/device_name.h"

#include <tvm/ffi/dtype.h>
#include <tvm/ffi/string.h>

namespace tvm_hetero {

std::string DeviceName(DLDevice device) {
  std::string id = ":" + std::to_string(device.device_id);
  switch (device.device_type) {
    case kDLCPU:
      return "cpu" + id;
    case kDLCUDA:
      return "cuda" + id;
    case kDLOpenCL:
      return "opencl" + id;
    case kDLVulkan:
      return "vulkan" + id;
    case kDLMetal:
      return "metal" + id;
    case kDLROCM:
      return "rocm" + id;
    default:
      return "device type " + std::to_string(static_cast<int>(device.device_type)) + id;
  }
}

std::string TypeName(DLDataType dtype, const int64_t* shape, size_t ndim) {
  std::string text(tvm::ffi::DLDataTypeToString(dtype));
  text += "[";
  for (size_t i = 0; i < ndim; ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace tvm_hetero
