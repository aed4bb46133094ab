#include "memory/host_memory.h"

#include <sys/mman.h>
#include <tvm_hetero/plan.h>

#include <cstdint>
#include <cstdlib>

namespace tvm_hetero {

void* AllocateHost(size_t bytes) noexcept {
  if (bytes > PTRDIFF_MAX) return nullptr;  // rounding up would begin at zero again
  const size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* data = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
#ifdef MADV_HUGEPAGE
  // A wish; without it the pages are small.
  if (data != nullptr && bytes >= kHugePage) madvise(data, rounded, MADV_HUGEPAGE);
#endif
  return data;
}

void FreeHost(void* data) noexcept { std::free(data); }

}  // namespace tvm_hetero
