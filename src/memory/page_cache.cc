#include "memory/page_cache.h"

#include <sys/mman.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <mutex>

namespace tvm_hetero {
namespace {

// What is kept is at most so many times what is in use: of a large model that is gone not much.
constexpr size_t kTimes = 2;

struct Pages {
  void* data;
  size_t bytes;
};

/*! \brief All blocks of the process. */
class PageCache {
 public:
  void* Take(size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    // The newest ones are the likeliest to be in some core's cache.
    for (auto block = kept_.begin(); block != kept_.end(); ++block) {
      if (block->bytes != bytes) continue;
      void* data = block->data;
      kept_.erase(block);
      kept_bytes_ -= bytes;
      Use(bytes);
      return data;
    }
    return nullptr;
  }

  void Note(size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    Use(bytes);
  }

  void Give(void* data, size_t bytes) noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    used_bytes_ -= bytes;
    try {
      kept_.push_front(Pages{data, bytes});
      kept_bytes_ += bytes;
    } catch (...) {  // no memory for the row
      munmap(data, bytes);
    }
    if (used_bytes_ == 0) most_bytes_ = 0;
    while (kept_bytes_ > Allowed()) DropOldest();
  }

  size_t kept() {
    std::lock_guard<std::mutex> lock(mutex_);
    return kept_bytes_;
  }

 private:
  void Use(size_t bytes) {
    used_bytes_ += bytes;
    most_bytes_ = std::max(most_bytes_, used_bytes_);
  }

  /*! \brief How much may be kept: with what is in use no more than was in use at once. */
  size_t Allowed() const { return std::min(most_bytes_ - used_bytes_, kTimes * used_bytes_); }

  void DropOldest() noexcept {
    const Pages& oldest = kept_.back();
    munmap(oldest.data, oldest.bytes);
    kept_bytes_ -= oldest.bytes;
    kept_.pop_back();
  }

  std::mutex mutex_;
  std::list<Pages> kept_;  //!< the newest first
  size_t kept_bytes_{0};
  size_t used_bytes_{0};
  size_t most_bytes_{0};  //!< that were in use at once since nothing was
};

/*! \brief Never destroyed: threads may give back while the process ends. */
PageCache* Cache() {
  static auto* cache = new PageCache;
  return cache;
}

}  // namespace

void* TakePages(size_t bytes) noexcept { return Cache()->Take(bytes); }

void NotePages(size_t bytes) noexcept { Cache()->Note(bytes); }

void GivePages(void* data, size_t bytes) noexcept { Cache()->Give(data, bytes); }

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def("tvm_hetero.kept_pages_bytes", [] {
    return static_cast<int64_t>(Cache()->kept());
  });
}

}  // namespace tvm_hetero
