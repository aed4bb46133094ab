#include "device_api.h"

#include <pthread.h>
#include <sched.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/error.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "device_name.h"

namespace tvm_hetero {
namespace {

/*! \brief Plain memory, aligned as TVM's kernels expect it. */
struct AlignedMemory {
  static constexpr size_t kAlignment = 64;

  void AllocData(DLTensor* tensor) {
    size_t bytes = ffi::GetDataSize(*tensor);
    size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    tensor->data = std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded);
    if (tensor->data == nullptr) throw std::bad_alloc();
  }
  void FreeData(DLTensor* tensor) { std::free(tensor->data); }
};

ffi::Function RuntimeFunction(const char* name, DLDevice device) {
  if (auto function = ffi::Function::GetGlobal(name)) return *function;
  TVM_FFI_THROW(RuntimeError) << DeviceName(device) << " needs TVM's runtime function " << name
                              << ", which is not loaded: import tvm first";
  TVM_FFI_UNREACHABLE();
}

char* Bytes(const ffi::Tensor& tensor) {
  return static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset();
}

}  // namespace

ffi::Tensor EmptyLike(const ffi::Tensor& like, DLDevice device) {
  if (IsCpu(device)) {
    return ffi::Tensor::FromNDAlloc(AlignedMemory(), like.shape(), like.dtype(), device);
  }
  ffi::Function allocate = RuntimeFunction("runtime.TVMTensorAllocWithScope", device);
  return allocate(ffi::Shape(like.shape()), like.dtype(), device, nullptr).cast<ffi::Tensor>();
}

void CopyTensor(const ffi::Tensor& from, const ffi::Tensor& to) {
  if (!from.IsContiguous()) {
    TVM_FFI_THROW(ValueError) << "a tensor to be copied is strided, expected a contiguous one";
  }
  if (IsCpu(from.device()) && IsCpu(to.device())) {
    std::memcpy(Bytes(to), Bytes(from), ffi::GetDataSize(*to.GetDLTensorPtr()));
    return;
  }
  DLDevice far = IsCpu(from.device()) ? to.device() : from.device();
  RuntimeFunction("runtime.TVMTensorCopyFromTo", far)(from, to);
  // Without a stream TVM copies on the default one; between two places of a device that is
  // asynchronous, and our own stream does not wait for it.
  RuntimeFunction("runtime.Device_StreamSync", far)(far, static_cast<int64_t>(0));
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

void NameThread(const std::string& name) {
#ifdef __linux__
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());  // the kernel keeps 15 letters
#endif
}

#ifdef __linux__
void PinThread(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores) {
    if (core >= CPU_SETSIZE) {
      TVM_FFI_THROW(RuntimeError) << "core " << core << " is beyond the " << CPU_SETSIZE
                                  << " that can be named";
    }
    CPU_SET(core, &set);
  }
  int status = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
  // The kernel ignores cores that are not there as long as one is; that would run a plan on fewer
  // cores than it was made for.
  if (status == 0 && AllowedCores().size() == static_cast<size_t>(CPU_COUNT(&set))) return;
  std::string text;
  for (int core : cores) text += (text.empty() ? "" : ", ") + std::to_string(core);
  TVM_FFI_THROW(RuntimeError) << "this process may not use all of the cores [" << text
                              << "]: name cores that are there";
}

std::vector<int> AllowedCores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (pthread_getaffinity_np(pthread_self(), sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}
#else
void PinThread(const std::vector<int>&) {}  // other systems give only hints; go without
std::vector<int> AllowedCores() { return {}; }
#endif

bool ConfigureThreadPool(const std::vector<int>& cores) {
  constexpr int kOneCorePerThread = -2;  // ThreadGroup::kSpecifyOneCorePerThread
  auto configure = ffi::Function::GetGlobal("runtime.config_threadpool");
  if (!configure) return false;
  ffi::Array<ffi::String> names;  // TVM wants the numbers as strings
  for (int core : cores) names.push_back(ffi::String(std::to_string(core)));
  (*configure)(kOneCorePerThread, static_cast<int>(cores.size()), names);
  return true;
}

}  // namespace tvm_hetero
