/*!
 * \file buffer_pool.h
 * \brief Targets of copies, used again in the next run.
 *
 * A fresh allocation of some megabytes costs hundreds of page faults on a CPU and stops a GPU.
 */
#ifndef TVM_HETERO_BUFFER_POOL_H_
#define TVM_HETERO_BUFFER_POOL_H_

#include <tvm/ffi/container/tensor.h>

#include <vector>

namespace tvm_hetero {

namespace ffi = tvm::ffi;

/*! \brief The buffers of one worker; used by its thread only. */
class BufferPool {
 public:
  /*!
   * \brief A tensor on `device` shaped as `like` that nobody else holds.
   *
   * The pool keeps a reference to everything that it hands out; a buffer is free again when that is
   * the last one. So a caller who keeps an output of an earlier run keeps its contents too.
   */
  ffi::Tensor Take(const ffi::Tensor& like, DLDevice device);

 private:
  std::vector<ffi::Tensor> buffers_;
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_BUFFER_POOL_H_
