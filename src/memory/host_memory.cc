#include "memory/host_memory.h"

#include <sys/mman.h>
#include <tvm_hetero/plan.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "memory/page_cache.h"
#include "support/pace.h"

namespace tvm_hetero {
namespace {

constexpr size_t kSmallPage = 4096;
constexpr size_t kPiece = size_t{512} << 10;  // some 0.2 ms to clear
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kMapped = SIZE_MAX;  // of pages the sanitizer knows nothing
#else
// From here on malloc maps a block of its own, too; but only until the first such block is freed.
constexpr size_t kMapped = size_t{128} << 10;
#endif

thread_local Pace* pace_of_thread = nullptr;  // null: all at once

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/*!
 * \brief The size of the block for so many bytes: four between a power of two and the next one, so
 *        that it serves others, too. What nobody writes to takes no memory.
 */
size_t BytesOfPages(size_t bytes) {
  size_t unit = kSmallPage;
  while (unit * 8 <= bytes) unit *= 2;
  return RoundUp(bytes, unit);
}

/*! \brief Pages that begin at a multiple of `alignment`; null where there are none. */
void* Map(size_t bytes, size_t alignment) noexcept {
  const size_t more = alignment - kSmallPage;  // mapped, and given back at once
  void* found = mmap(nullptr, bytes + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
  if (found == MAP_FAILED) return nullptr;
  char* first = static_cast<char*>(found);
  const auto address = reinterpret_cast<uintptr_t>(first);
  const size_t before = RoundUp(address, alignment) - address;
  if (before > 0) munmap(first, before);
  if (more > before) munmap(first + before + bytes, more - before);
  return first + before;
}

void* MapFresh(size_t bytes) noexcept {
  const bool is_huge = bytes >= kHugePage;
  void* data = Map(bytes, is_huge ? kHugePage : kSmallPage);
#ifdef MADV_HUGEPAGE
  if (data != nullptr && is_huge) madvise(data, bytes, MADV_HUGEPAGE);  // a wish
#endif
  return data;
}

/*!
 * \brief Have the pages now. Else a new plan's first request would have them cleared one by one: on
 *        SqueezeNet it was late by 6 periods instead of 2 (`python -m benchmarks.switch`, worst).
 */
void Populate(void* data, size_t bytes) noexcept {
#ifdef MADV_POPULATE_WRITE
  const size_t whole = RoundUp(bytes, kSmallPage);
  const size_t piece = pace_of_thread == nullptr ? whole : kPiece;
  for (size_t done = 0; done < whole; done += piece) {
    // A wish, too.
    madvise(static_cast<char*>(data) + done, std::min(piece, whole - done), MADV_POPULATE_WRITE);
    if (pace_of_thread != nullptr) pace_of_thread->Rest();
  }
#endif
}

}  // namespace

void* AllocateHost(size_t bytes) noexcept {
  if (bytes > PTRDIFF_MAX / 2) return nullptr;  // rounding up would begin at zero again
  if (bytes < kMapped) return AllocateUnsized(bytes);
  const size_t rounded = BytesOfPages(bytes);
  if (void* used = PagesOfProcess()->Take(rounded)) return used;
  void* data = MapFresh(rounded);
  if (data == nullptr) return nullptr;
  Populate(data, bytes);
  PagesOfProcess()->Note(rounded);
  return data;
}

void FreeHost(void* data, size_t bytes) noexcept {
  if (bytes < kMapped) return FreeUnsized(data);
  if (data != nullptr) PagesOfProcess()->Give(data, BytesOfPages(bytes));
}

PagesInPieces::PagesInPieces(Pace* pace) noexcept : before_(pace_of_thread) {
  pace_of_thread = pace;
}

PagesInPieces::~PagesInPieces() { pace_of_thread = before_; }

void* AllocateUnsized(size_t bytes) noexcept {
  if (bytes > PTRDIFF_MAX / 2) return nullptr;
  const size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  return std::aligned_alloc(alignment, RoundUp(bytes == 0 ? 1 : bytes, alignment));
}

void FreeUnsized(void* data) noexcept { std::free(data); }

}  // namespace tvm_hetero
