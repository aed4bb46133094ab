/*!
 * \file support/device_name.h
 * \brief Devices and tensors as people write them: "cuda:0", "float32[1, 3, 224, 224]".
 */
#ifndef TVM_HETERO_SUPPORT_DEVICE_NAME_H_
#define TVM_HETERO_SUPPORT_DEVICE_NAME_H_

#include <dlpack/dlpack.h>

#include <cstdint>
#include <string>

namespace tvm_hetero {

inline bool SameDevice(DLDevice a, DLDevice b) {
  return a.device_type == b.device_type && a.device_id == b.device_id;
}

inline bool IsCpu(DLDevice device) { return device.device_type == kDLCPU; }

std::string DeviceName(DLDevice device);

/*! \brief A type and shape; `ndim` sizes are read from `shape`. */
std::string TypeName(DLDataType dtype, const int64_t* shape, size_t ndim);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_SUPPORT_DEVICE_NAME_H_
