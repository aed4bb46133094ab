#include "memory/device_api.h"

#include <dlfcn.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/reflection/registry.h>

#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "memory/host_memory.h"
#include "support/device_name.h"
#include "support/faults.h"

namespace tvm_hetero {
namespace {

/*! \brief Plain memory. */
struct PlainMemory {
  void AllocData(DLTensor* tensor) {
    tensor->data = AllocateHost(ffi::GetDataSize(*tensor));
    if (tensor->data == nullptr) throw std::bad_alloc();
  }
  void FreeData(DLTensor* tensor) { FreeHost(tensor->data, ffi::GetDataSize(*tensor)); }
};

/*! \brief The memory of another tensor, which it keeps; for pinned memory to pass as the CPU's. */
struct BorrowedMemory {
  ffi::Tensor owner;
  void AllocData(DLTensor* tensor) { tensor->data = owner.data_ptr(); }
  void FreeData(DLTensor*) {}
};

ffi::Function RuntimeFunction(const char* name, DLDevice device) {
  if (auto function = ffi::Function::GetGlobal(name)) return *function;
  TVM_FFI_THROW(RuntimeError) << DeviceName(device) << " needs TVM's runtime function " << name
                              << ", which is not loaded: import tvm first";
  TVM_FFI_UNREACHABLE();
}

char* Address(const DLTensor& tensor) {
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

void* CurrentStream(DLDevice device) {
  return TVMFFIEnvGetStream(device.device_type, device.device_id);
}

// int cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
using CudaCopy = int (*)(uintptr_t to, uintptr_t from, size_t bytes, void* stream);

/*! \brief The copying function of CUDA's driver, which TVM's CUDA runtime has loaded; or null. */
CudaCopy FindCudaCopy() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  return driver == nullptr ? nullptr : reinterpret_cast<CudaCopy>(dlsym(driver, "cuMemcpyAsync"));
}

/*!
 * \brief Copy on the stream that the thread has set, and wait for this one alone.
 *
 * TVM's function for this takes no stream: it copies on the default one, so that copies of all
 * workers would stand in one line. The driver takes both devices' memory and the host's by their
 * addresses alone.
 */
void CopyByCuda(CudaCopy copy, const DLTensor& from, const DLTensor& to, DLDevice device) {
  // A thread that has done nothing on the device so far has no context there.
  RuntimeFunction("__tvm_set_device", device)(static_cast<int>(device.device_type),
                                              device.device_id);
  int status = copy(reinterpret_cast<uintptr_t>(Address(to)),
                    reinterpret_cast<uintptr_t>(Address(from)), ffi::GetDataSize(from),
                    CurrentStream(device));
  if (status != 0) {
    TVM_FFI_THROW(RuntimeError) << "a copy from " << DeviceName(from.device) << " to "
                                << DeviceName(to.device) << " failed: CUDA error " << status;
  }
  SynchronizeThread(device);
}

void Copy(DLTensor from, DLTensor to) {
  if (ffi::GetDataSize(from) != ffi::GetDataSize(to)) {
    TVM_FFI_THROW(ValueError) << "a tensor of " << ffi::GetDataSize(from)
                              << " bytes is to be copied into one of " << ffi::GetDataSize(to);
  }
  if (IsCpu(from.device) && IsCpu(to.device)) {
    std::memcpy(Address(to), Address(from), ffi::GetDataSize(from));
    return;
  }
  DLDevice far = IsCpu(from.device) ? to.device : from.device;
  if (far.device_type == kDLCUDA) {
    static const CudaCopy copy = FindCudaCopy();
    if (copy != nullptr) return CopyByCuda(copy, from, to, far);
  }
  RuntimeFunction("runtime.TVMTensorCopyFromTo", far)(&from, &to);
  // That was on the default stream, and may not have ended.
  RuntimeFunction("runtime.Device_StreamSync", far)(far, static_cast<int64_t>(0));
}

}  // namespace

ffi::Tensor Empty(ffi::ShapeView shape, DLDataType dtype, DLDevice device, Placement placement) {
  MaybeFail(FaultKind::kAllocation);
  constexpr const char* kAllocate = "runtime.TVMTensorAllocWithScope";
  if (!IsCpu(device)) {
    return RuntimeFunction(kAllocate, device)(ffi::Shape(shape), dtype, device, nullptr)
        .cast<ffi::Tensor>();
  }
  if (placement == Placement::kPinned && ffi::Function::GetGlobal("device_api.cuda_host")) {
    DLDevice pinned{kDLCUDAHost, 0};
    auto owner = RuntimeFunction(kAllocate, pinned)(ffi::Shape(shape), dtype, pinned, nullptr)
                     .cast<ffi::Tensor>();
    return ffi::Tensor::FromNDAlloc(BorrowedMemory{std::move(owner)}, shape, dtype, device);
  }
  return ffi::Tensor::FromNDAlloc(PlainMemory(), shape, dtype, device);
}

void CopyTensor(const ffi::Tensor& from, const ffi::Tensor& to) {
  if (!from.IsContiguous()) {
    TVM_FFI_THROW(ValueError) << "a tensor to be copied is strided, expected a contiguous one";
  }
  Copy(*from.GetDLTensorPtr(), *to.GetDLTensorPtr());
}

void CopyToHost(const DLTensor& from, void* to) {
  DLTensor host = from;
  host.data = to;
  host.byte_offset = 0;
  host.device = DLDevice{kDLCPU, 0};
  Copy(from, host);
}

void SynchronizeThread(DLDevice device) {
  if (IsCpu(device)) return;
  auto stream = reinterpret_cast<int64_t>(CurrentStream(device));
  RuntimeFunction("runtime.Device_StreamSync", device)(device, stream);
}

void RequireRuntime(DLDevice device) {
  if (IsCpu(device)) return;
  for (const char* name : {"runtime.TVMTensorAllocWithScope", "runtime.TVMTensorCopyFromTo",
                           "runtime.Device_StreamSync"}) {
    RuntimeFunction(name, device);
  }
}

DeviceStream::DeviceStream(DLDevice device) : device_(device) {
  if (IsCpu(device)) return;
  synchronize_ = RuntimeFunction("runtime.Device_StreamSync", device);
  auto create = ffi::Function::GetGlobal("runtime.Device_StreamCreate");
  auto set = ffi::Function::GetGlobal("runtime.Device_SetStream");
  if (!create || !set) return;  // then the default stream does
  stream_ = (*create)(device).cast<int64_t>();
  (*set)(device, stream_);
}

DeviceStream::~DeviceStream() {
  if (stream_ == 0) return;
  try {
    if (auto set = ffi::Function::GetGlobal("runtime.Device_SetStream")) {
      (*set)(device_, static_cast<int64_t>(0));
    }
    if (auto destroy = ffi::Function::GetGlobal("runtime.Device_StreamFree")) {
      (*destroy)(device_, stream_);
    }
  } catch (const std::exception&) {
    // At the end of the process a driver may be gone already, and the stream with it.
  }
}

void DeviceStream::Synchronize() const {
  if (synchronize_) (*synchronize_)(device_, stream_);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  // For weights: TVM's own allocation is aligned too, but not in huge pages.
  refl::GlobalDef().def("tvm_hetero.empty",
                        [](const ffi::Shape& shape, DLDataType dtype, DLDevice device) {
                          return Empty(shape, dtype, device);
                        });
}

}  // namespace tvm_hetero
