/*!
 * \file device_api.h
 * \brief What the executor needs of a device: memory, copies, a stream, a thread's setting.
 *
 * On a CPU it does this itself. Everything else goes through TVM's runtime functions, looked up by
 * name when they are needed, so that the library is linked with tvm-ffi alone.
 */
#ifndef TVM_HETERO_DEVICE_API_H_
#define TVM_HETERO_DEVICE_API_H_

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <optional>
#include <string>
#include <vector>

namespace tvm_hetero {

namespace ffi = tvm::ffi;

/*! \brief A new tensor on `device`, shaped as `like`. */
ffi::Tensor EmptyLike(const ffi::Tensor& like, DLDevice device);

/*! \brief Copy `from` into `to`; both contiguous and of one size. May return before a device did. */
void CopyTensor(const ffi::Tensor& from, const ffi::Tensor& to);

/*! \brief Throws RuntimeError unless TVM's runtime, which works `device`, is loaded. */
void RequireRuntime(DLDevice device);

/*!
 * \brief A stream that the calling thread uses for all it does on a device.
 *
 * Made, used and destroyed by one thread. Nothing at all on a CPU.
 */
class DeviceStream {
 public:
  explicit DeviceStream(DLDevice device);
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  /*! \brief Wait for all that this thread has started on the device. */
  void Synchronize() const;

 private:
  DLDevice device_;
  int64_t stream_{0};
  std::optional<ffi::Function> synchronize_;
};

/*! \brief Name the calling thread, for debuggers and `top -H`. */
void NameThread(const std::string& name);

/*! \brief Pin the calling thread; throws RuntimeError where one of the cores is not there. */
void PinThread(const std::vector<int>& cores);

/*! \brief The cores that the calling thread may run on. */
std::vector<int> AllowedCores();

/*!
 * \brief Give the calling thread a TVM thread pool of its own, on `cores`.
 * \return false if TVM's runtime is not loaded (yet).
 */
bool ConfigureThreadPool(const std::vector<int>& cores);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_DEVICE_API_H_
