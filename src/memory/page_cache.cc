#include "memory/page_cache.h"

#include <sys/mman.h>

#include <algorithm>

namespace tvm_hetero {
namespace {

// What is kept is at most so many times what is in use.
constexpr size_t kKeptOverUsed = 2;

}  // namespace

PageCache::~PageCache() {
  while (!blocks_.empty()) DropOldest();
}

void* PageCache::Take(size_t bytes) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  // The newest one is the likeliest to be in some core's cache.
  auto found = std::find_if(blocks_.begin(), blocks_.end(),
                            [bytes](const Block& block) { return block.bytes == bytes; });
  if (found == blocks_.end()) return nullptr;
  void* data = found->data;
  blocks_.erase(found);
  kept_bytes_ -= bytes;
  Use(bytes);
  return data;
}

void PageCache::Note(size_t bytes) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  Use(bytes);
}

void PageCache::Give(void* data, size_t bytes) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  used_bytes_ -= bytes;
  if (used_bytes_ == 0) most_bytes_ = 0;
  try {
    blocks_.push_front(Block{data, bytes});
    kept_bytes_ += bytes;
  } catch (...) {  // no memory for the row
    munmap(data, bytes);
  }
  while (kept_bytes_ > Allowed()) DropOldest();
}

size_t PageCache::kept() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return kept_bytes_;
}

void PageCache::Use(size_t bytes) {
  used_bytes_ += bytes;
  most_bytes_ = std::max(most_bytes_, used_bytes_);
}

size_t PageCache::Allowed() const {
  return used_bytes_ == 0 ? 0 : std::min(most_bytes_ - used_bytes_, kKeptOverUsed * used_bytes_);
}

void PageCache::DropOldest() noexcept {
  const Block& oldest = blocks_.back();
  munmap(oldest.data, oldest.bytes);
  kept_bytes_ -= oldest.bytes;
  blocks_.pop_back();
}

PageCache* PagesOfProcess() {
  static auto* cache = new PageCache;
  return cache;
}

}  // namespace tvm_hetero
