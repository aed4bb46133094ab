#include "buffer_pool.h"

#include <algorithm>
#include <atomic>

#include "device_api.h"
#include "device_name.h"

namespace tvm_hetero {
namespace {

bool Fits(const ffi::Tensor& buffer, const ffi::Tensor& like, DLDevice device) {
  ffi::ShapeView a = buffer.shape(), b = like.shape();
  return SameDevice(buffer.device(), device) && buffer.dtype() == like.dtype() &&
         std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

ffi::Tensor BufferPool::Take(const ffi::Tensor& like, DLDevice device) {
  for (const ffi::Tensor& buffer : buffers_) {
    if (buffer.use_count() != 1 || !Fits(buffer, like, device)) continue;
    // The count is read relaxed, while the last other holder decremented it with release: with
    // this fence all that it read of the buffer happened before what we write now.
    std::atomic_thread_fence(std::memory_order_acquire);
    return buffer;
  }
  buffers_.push_back(EmptyLike(like, device));
  return buffers_.back();
}

}  // namespace tvm_hetero
