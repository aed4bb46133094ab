/*!
 * \file memory/device_api.h
 * \brief What the executor needs of a device: memory, copies, a stream.
 *
 * On a CPU it does this itself. Everything else goes through TVM's runtime functions, looked up by
 * name when they are needed, so that the library is linked with tvm-ffi alone.
 */
#ifndef TVM_HETERO_MEMORY_DEVICE_API_H_
#define TVM_HETERO_MEMORY_DEVICE_API_H_

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cstdint>
#include <optional>

namespace tvm_hetero {

namespace ffi = tvm::ffi;

/*! \brief Where a tensor in main memory lies: anywhere, or where a GPU can fetch it by itself. */
enum class Placement { kPlain, kPinned };

/*!
 * \brief A new, compact tensor; aligned to kAlignment (plan.h). A point of kAllocation (faults.h).
 *
 * Pinned memory is asked for in vain where there is no GPU; the tensor is a plain one then. Its
 * device is the CPU in either case.
 */
ffi::Tensor Empty(ffi::ShapeView shape, DLDataType dtype, DLDevice device,
                  Placement placement = Placement::kPlain);

/*!
 * \brief Copy `from` into `to`; both contiguous and of one size.
 *
 * Returns when it is done. A copy to or from a GPU goes on the stream that the thread has set there
 * (DeviceStream), and only this one is waited for: kernels and other copies run on meanwhile. From
 * or to memory that is not pinned the driver itself copies by way of pinned memory, and blocks.
 */
void CopyTensor(const ffi::Tensor& from, const ffi::Tensor& to);

/*! \brief Bytes of a tensor to the host's memory; waits as CopyTensor does. */
void CopyToHost(const DLTensor& from, void* to);

/*! \brief Wait for all that the calling thread has started on its stream of a device. */
void SynchronizeThread(DLDevice device);

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

}  // namespace tvm_hetero
#endif  // TVM_HETERO_MEMORY_DEVICE_API_H_
