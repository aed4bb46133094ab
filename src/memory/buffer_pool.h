/*!
 * \file memory/buffer_pool.h
 * \brief The tensors that may stand in one slot, used again from run to run.
 *
 * A fresh allocation of some megabytes costs hundreds of page faults on a CPU and stops a GPU.
 */
#ifndef TVM_HETERO_MEMORY_BUFFER_POOL_H_
#define TVM_HETERO_MEMORY_BUFFER_POOL_H_

#include <tvm/ffi/container/tensor.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "memory/device_api.h"

namespace tvm_hetero {

namespace ffi = tvm::ffi;

/*! \brief The buffers of one slot. Any thread may use it. */
class BufferPool {
 public:
  /*!
   * \param allocations Where allocations of `Take` are counted, for all pools together; outlives
   *        the pool.
   * \param placement `kPinned` for a slot that is copied to or from a GPU (Plan::IsStaged).
   */
  explicit BufferPool(std::atomic<int64_t>* allocations, Placement placement = Placement::kPlain)
      : allocations_(allocations), placement_(placement) {}

  /*!
   * \brief A tensor of this type on `device` that nobody else holds.
   *
   * The pool keeps a reference to everything that it hands out; a buffer is free again when that is
   * the last one. So a caller who keeps an output of an earlier run keeps its contents too. He may
   * keep any number of them: the pool lets go of the oldest, for which it would wait in vain.
   */
  ffi::Tensor Take(ffi::ShapeView shape, DLDataType dtype, DLDevice device);

  /*! \brief See to it that `count` buffers of this type are there, free or not. */
  void Reserve(int64_t count, ffi::ShapeView shape, DLDataType dtype, DLDevice device);

  /*! \brief How many buffers there are. */
  int64_t size() const;

 private:
  //! Buffers that are kept beyond those reserved, for outputs that callers hold for a while.
  static constexpr size_t kSpare = 16;

  void Keep(const ffi::Tensor& fresh);

  std::atomic<int64_t>* allocations_;
  const Placement placement_;
  mutable std::mutex mutex_;  //!< uncontended in practice: one worker fills a slot
  std::vector<ffi::Tensor> buffers_;
  size_t reserved_{0};
  size_t oldest_{0};  //!< position of the buffer to let go of next
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_MEMORY_BUFFER_POOL_H_
