#include "memory/host_memory.h"

#include <sys/mman.h>
#include <tvm_hetero/plan.h>

#include <cstdint>
#include <cstdlib>

namespace tvm_hetero {
namespace {

constexpr size_t kPage = 4096;
// From here on malloc maps a block of its own, too; but only until the first such block is freed.
constexpr size_t kMapped = size_t{128} << 10;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/*! \brief Pages of their own, which begin at a multiple of `alignment`; null where there are none. */
void* Map(size_t bytes, size_t alignment) noexcept {
  const size_t more = alignment - kPage;  // mapped, and given back at once
  void* found = mmap(nullptr, bytes + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
  if (found == MAP_FAILED) return nullptr;
  char* first = static_cast<char*>(found);
  const size_t before = RoundUp(reinterpret_cast<uintptr_t>(first), alignment) -
                        reinterpret_cast<uintptr_t>(first);
  if (before > 0) munmap(first, before);
  if (more > before) munmap(first + before + bytes, more - before);
  return first + before;
}

}  // namespace

void* AllocateHost(size_t bytes) noexcept {
  if (bytes > PTRDIFF_MAX - kHugePage) return nullptr;  // rounding up would begin at zero again
  if (bytes < kMapped) return AllocateUnsized(bytes);
  const size_t rounded = RoundUp(bytes, kPage);
  void* data = Map(rounded, bytes >= kHugePage ? kHugePage : kPage);
#ifdef MADV_HUGEPAGE
  // A wish; without it the pages are small.
  if (data != nullptr && bytes >= kHugePage) madvise(data, rounded, MADV_HUGEPAGE);
#endif
  return data;
}

void FreeHost(void* data, size_t bytes) noexcept {
  if (bytes < kMapped) return FreeUnsized(data);
  if (data != nullptr) munmap(data, RoundUp(bytes, kPage));
}

void* AllocateUnsized(size_t bytes) noexcept {
  if (bytes > PTRDIFF_MAX) return nullptr;
  return std::aligned_alloc(kAlignment, RoundUp(bytes == 0 ? 1 : bytes, kAlignment));
}

void FreeUnsized(void* data) noexcept { std::free(data); }

}  // namespace tvm_hetero
