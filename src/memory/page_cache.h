/*!
 * \file memory/page_cache.h
 * \brief Blocks of pages that were given back, kept for who asks for as many bytes next.
 *
 * Plans of a model that take over from each other have mostly the same tensors. Fresh pages would be
 * cleared, one fault each, while the first request of the new plan waits: of SqueezeNet 1,200 times.
 * With what is in use no more is kept than was in use at once; and where a large model has gone, not
 * much more than the small one needs that stays. With the last block that is in use all of it goes.
 */
#ifndef TVM_HETERO_MEMORY_PAGE_CACHE_H_
#define TVM_HETERO_MEMORY_PAGE_CACHE_H_

#include <cstddef>
#include <list>
#include <mutex>

namespace tvm_hetero {

/*! \brief Blocks that mmap has made. Any thread may use it. */
class PageCache {
 public:
  PageCache() = default;
  PageCache(const PageCache&) = delete;
  PageCache& operator=(const PageCache&) = delete;
  ~PageCache();

  /*! \brief A kept block of exactly so many bytes, which is in use from now on; null if none is. */
  void* Take(size_t bytes) noexcept;
  /*! \brief A block of so many bytes was mapped and is in use. */
  void Note(size_t bytes) noexcept;
  /*! \brief A block is in use no more: keep it, or give it back to the system. */
  void Give(void* data, size_t bytes) noexcept;
  /*! \brief How many bytes are kept. */
  size_t kept() const;

 private:
  struct Block {
    void* data;
    size_t bytes;
  };

  void Use(size_t bytes);
  size_t Allowed() const;
  void DropOldest() noexcept;

  mutable std::mutex mutex_;
  std::list<Block> blocks_;  //!< that are kept, the newest first
  size_t kept_bytes_{0};
  size_t used_bytes_{0};
  size_t most_bytes_{0};  //!< that were in use at once, since nothing was
};

/*! \brief The cache of the process; it is never destroyed, as threads may outlive everything. */
PageCache* PagesOfProcess();

}  // namespace tvm_hetero

#endif  // TVM_HETERO_MEMORY_PAGE_CACHE_H_
