// Memory for tensors: aligned and whole; pages that were given back are used again, never more of
// them than were in use at once, and with the last block all of them are gone.
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include <tvm_hetero/plan.h>

#include "harness.h"
#include "memory/host_memory.h"
#include "memory/page_cache.h"

namespace tvm_hetero::tests {
namespace {

constexpr size_t kKib = 1024, kMib = kKib * kKib;

void* NewPages(PageCache* cache, size_t bytes) {
  if (void* used = cache->Take(bytes)) return used;
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(data != MAP_FAILED);
  cache->Note(bytes);
  return data;
}

TEST(MemoryIsAlignedAndOnesOwnWhateverItsSize) {
  const std::vector<size_t> sizes = {0,          1,          100,        128 * kKib - 1,
                                     128 * kKib, 131 * kKib, 2 * kMib - 1, 2 * kMib,
                                     3 * kMib + 5};
  for (int round = 0; round < 3; ++round) {
    std::vector<char*> held;
    for (size_t bytes : sizes) {
      held.push_back(static_cast<char*>(AllocateHost(bytes)));
      CHECK(held.back() != nullptr);
      const size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
      CHECK(reinterpret_cast<uintptr_t>(held.back()) % alignment == 0);
      std::memset(held.back(), static_cast<int>(held.size()), bytes);
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      for (size_t at = 0; at < sizes[i]; at += 509) CHECK(held[i][at] == static_cast<char>(i + 1));
      FreeHost(held[i], sizes[i]);
    }
  }
}

TEST(WhatNobodyCanHaveIsNull) {
  for (size_t bytes : {SIZE_MAX, SIZE_MAX / 2 + 1, SIZE_MAX / 2, SIZE_MAX / 2 - kHugePage}) {
    CHECK(AllocateHost(bytes) == nullptr);
  }
  CHECK(AllocateUnsized(SIZE_MAX) == nullptr);
  FreeHost(nullptr, kMib);
}

TEST(PagesAreUsedAgainByWhoWantsAsMany) {
  PageCache cache;
  void* other = NewPages(&cache, 512 * kKib);
  void* first = NewPages(&cache, 256 * kKib);
  cache.Give(first, 256 * kKib);
  CHECK(cache.kept() == 256 * kKib);
  CHECK(cache.Take(128 * kKib) == nullptr);
  CHECK(cache.Take(256 * kKib) == first);
  CHECK(cache.Take(256 * kKib) == nullptr);
  cache.Give(first, 256 * kKib);
  cache.Give(other, 512 * kKib);
}

TEST(NoMoreIsHeldThanWasInUseAtOnce) {
  PageCache cache;
  std::vector<void*> held;
  for (int i = 0; i < 6; ++i) held.push_back(NewPages(&cache, kMib));
  for (int i = 0; i < 3; ++i, held.pop_back()) cache.Give(held.back(), kMib);
  CHECK(cache.kept() == 3 * kMib);  // 3 in use: 6 there were
  void* larger = NewPages(&cache, 2 * kMib);
  void* largest = NewPages(&cache, 4 * kMib);  // 9 MiB in use
  cache.Give(larger, 2 * kMib);
  CHECK(cache.kept() == 2 * kMib);  // the older ones went
  for (; held.size() > 1; held.pop_back()) cache.Give(held.back(), kMib);
  cache.Give(largest, 4 * kMib);
  CHECK(cache.kept() <= 2 * kMib);  // one of 1 MiB is in use
  cache.Give(held.back(), kMib);
  CHECK(cache.kept() == 0);
}

TEST(ManyThreadsTakeAndGive) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 300; ++i) {
        const size_t bytes = (128 + 64 * ((i + t) % 5)) * kKib;
        auto* data = static_cast<char*>(AllocateHost(bytes));
        data[0] = data[bytes - 1] = static_cast<char>(t);
        std::this_thread::yield();
        CHECK(data[0] == static_cast<char>(t) && data[bytes - 1] == static_cast<char>(t));
        FreeHost(data, bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tvm_hetero::tests
