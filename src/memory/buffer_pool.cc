#include "memory/buffer_pool.h"

#include <algorithm>

#include "support/device_name.h"

namespace tvm_hetero {
namespace {

bool Fits(const ffi::Tensor& buffer, ffi::ShapeView shape, DLDataType dtype, DLDevice device) {
  ffi::ShapeView own = buffer.shape();
  return SameDevice(buffer.device(), device) && buffer.dtype() == dtype &&
         std::equal(own.begin(), own.end(), shape.begin(), shape.end());
}

}  // namespace

ffi::Tensor BufferPool::Take(ffi::ShapeView shape, DLDataType dtype, DLDevice device) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const ffi::Tensor& buffer : buffers_) {
    if (buffer.use_count() != 1 || !Fits(buffer, shape, dtype, device)) continue;
    // The count is read relaxed, while the last other holder decremented it with release: with
    // this fence all that it read of the buffer happened before what we write now.
    std::atomic_thread_fence(std::memory_order_acquire);
    return buffer;
  }
  ffi::Tensor fresh = Empty(shape, dtype, device, placement_);
  allocations_->fetch_add(1, std::memory_order_relaxed);
  Keep(fresh);
  return fresh;
}

/*! \brief Take a buffer in, in place of the oldest one if there are enough; the lock is held. */
void BufferPool::Keep(const ffi::Tensor& fresh) {
  if (buffers_.size() < reserved_ + kSpare) {
    buffers_.push_back(fresh);
    return;
  }
  oldest_ %= buffers_.size();
  buffers_[oldest_++] = fresh;
}

void BufferPool::Reserve(int64_t count, ffi::ShapeView shape, DLDataType dtype, DLDevice device) {
  std::lock_guard<std::mutex> lock(mutex_);
  int64_t missing = count;
  for (const ffi::Tensor& buffer : buffers_) missing -= Fits(buffer, shape, dtype, device);
  reserved_ = std::max(reserved_, static_cast<size_t>(std::max<int64_t>(count, 0)));
  for (; missing > 0; --missing) buffers_.push_back(Empty(shape, dtype, device, placement_));
}

int64_t BufferPool::size() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(buffers_.size());
}

}  // namespace tvm_hetero
