// Workspaces of kernels: used again, as few and as small as can be, gone with their thread, and
// null with an error where there are none.
#include <tvm/ffi/error.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "harness.h"
#include "memory/host_memory.h"
#include "memory/workspace.h"
#include "sample.h"
#include "support/kernel_context.h"

namespace tvm_hetero::tests {
namespace {

constexpr uint64_t kKilo = 1024, kMega = kKilo * kKilo;

/*! \brief A thread of its own for each: what the pool of another one has kept is of no account. */
void InThread(const std::function<void()>& body) {
  std::exception_ptr failed;
  std::thread([&] {
    try {
      body();
    } catch (...) {
      failed = std::current_exception();
    }
  }).join();
  if (failed) std::rethrow_exception(failed);
}

/*! \brief A workspace, all of it written. */
void* Alloc(uint64_t bytes, int device_type = kDLCPU) {
  void* data = AllocWorkspace(device_type, 0, bytes, kDLFloat, 32);
  if (data != nullptr) std::memset(data, 7, bytes);
  return data;
}

int Free(void* data, int device_type = kDLCPU) { return FreeWorkspace(device_type, 0, data); }

/*! \brief What code would be told that calls a kernel which returns an error. */
std::string RaisedError() { return ffi::details::MoveFromSafeCallRaised().what(); }

/*! \brief One kernel: blocks of these sizes, each taken while those before are held. */
bool RunKernel(const std::vector<uint64_t>& sizes) {
  std::vector<void*> held;
  for (uint64_t bytes : sizes) {
    held.push_back(Alloc(bytes));
    if (held.back() == nullptr) return false;  // as a compiled kernel: without giving back
  }
  for (; !held.empty(); held.pop_back()) CHECK(Free(held.back()) == 0);
  return true;
}

TEST(WhatAThreadGivesUpIsForTheNextOne) {
  void* first = nullptr;
  InThread([&] {
    void* held = Alloc(3 * kMega);  // by which pages are kept for others at all
    first = Alloc(2 * kMega);
    CHECK(Free(first) == 0);
    GiveUpWorkspaces();
    InThread([&] {
      void* next = Alloc(2 * kMega);
#ifndef __SANITIZE_ADDRESS__  // which never gives the same again
      CHECK(next == first);
#endif
      CHECK(Free(next) == 0);
    });
    CHECK(Free(held) == 0);
    const int64_t before = WorkspaceBytes();
    GiveUpWorkspaces();
    CHECK(WorkspaceBytes() <= before - static_cast<int64_t>(3 * kMega));
    CHECK(RunKernel({kMega}));  // and it can have others
  });
}

TEST(WorkspacesAreUsedAgain) {
  InThread([] {
    const std::vector<std::vector<uint64_t>> kernels{
        {0}, {100, 5000}, {3 * kMega}, {kKilo, 9 * kMega}, {5 * kMega, 64, 2 * kMega}, {}, {7000}};
    for (int run = 0; run < 4; ++run) {  // until the blocks fit: each is replaced by larger ones
      for (const auto& sizes : kernels) CHECK(RunKernel(sizes));
    }
    const int64_t settled = WorkspaceAllocations();
    for (int run = 0; run < 20; ++run) {
      for (const auto& sizes : kernels) CHECK(RunKernel(sizes));
    }
    CHECK(WorkspaceAllocations() == settled);
  });
}

TEST(TheSmallestWorkspaceThatFitsIsTaken) {
  InThread([] {
    void* small = Alloc(4 * kKilo);
    void* large = Alloc(80 * kKilo);
    void* middle = Alloc(20 * kKilo);
    for (void* each : {large, small, middle}) CHECK(Free(each) == 0);  // in any order
    CHECK(Alloc(10 * kKilo) == middle);
    CHECK(Alloc(100) == small);
    CHECK(Alloc(100) == large);
  });
}

TEST(ALargerWorkspaceTakesThePlaceOfTheLargest) {
  InThread([] {
    const int64_t before = WorkspaceBytes();
    CHECK(RunKernel({4 * kKilo, 8 * kKilo}));
    CHECK(WorkspaceBytes() - before == 12 * 1024);
    CHECK(RunKernel({20 * kKilo}));
    CHECK(WorkspaceBytes() - before == 24 * 1024);
    // However sizes grow, there are no more blocks than one kernel held.
    for (uint64_t kilos = 20; kilos < 4000; kilos += 20) CHECK(RunKernel({kilos * kKilo}));
    CHECK(WorkspaceBytes() - before <= static_cast<int64_t>(4 * kMega + 4 * kKilo));
  });
}

TEST(LargeWorkspacesBeginAtHugePages) {
  InThread([] {
    const int64_t before = WorkspaceBytes();
    void* large = Alloc(kMega);
    CHECK(reinterpret_cast<uintptr_t>(large) % kHugePage == 0);
    CHECK(WorkspaceBytes() - before == static_cast<int64_t>(kHugePage));
    void* small = Alloc(kMega - 4 * kKilo);
    CHECK(reinterpret_cast<uintptr_t>(small) % 64 == 0);
    CHECK(WorkspaceBytes() - before == static_cast<int64_t>(kHugePage + kMega - 4 * kKilo));
  });
}

TEST(WorkspacesGoWithTheirThread) {
  const int64_t before = WorkspaceBytes();
  InThread([] { CHECK(RunKernel({100, 3 * kMega})); });
  InThread([] { CHECK(Alloc(kMega) != nullptr); });  // and what was never given back
  CHECK(WorkspaceBytes() == before);
}

TEST(ThreadsHaveWorkspacesOfTheirOwn) {
  std::vector<std::thread> threads;
  std::vector<int> passed(4, 0);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i, &passed] {
      for (int run = 0; run < 50; ++run) passed[i] += RunKernel({kKilo << i, 100000, kKilo});
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(passed == std::vector<int>(4, 50));
}

/*! \brief Something that is used at the end of a thread, when its blocks may be gone. */
struct UsesWorkspaceAtTheEnd {
  void* Touch() { return this; }
  ~UsesWorkspaceAtTheEnd() { (void)RunKernel({100, kMega}); }
};

TEST(AThreadThatEndsHasWorkspaces) {
  InThread([] {
    static thread_local UsesWorkspaceAtTheEnd before;  // destroyed after the blocks
    CHECK(before.Touch() != nullptr);
    CHECK(RunKernel({kKilo}));
  });
}

TEST(EveryWorkspaceFails) {
  InThread([] {
    const std::vector<uint64_t> sizes{kKilo, 2 * kMega, 5000, kKilo};
    CHECK(RunKernel(sizes));
    const int64_t bytes = WorkspaceBytes();
    const int64_t settled = WorkspaceAllocations();
    for (int nth = 1; nth <= 4; ++nth) {
      Fault fault("workspace", nth);
      CHECK(!RunKernel(sizes));
      CHECK_CONTAINS(RaisedError(), "injected fault: workspace " + std::to_string(nth));
      CHECK(RunKernel(sizes));  // what the one that failed kept is there again
    }
    CHECK(WorkspaceAllocations() == settled);
    CHECK(WorkspaceBytes() == bytes);
  });
}

TEST(WhatAKernelKeptIsTakenBack) {
  InThread([] {
    CHECK(Alloc(kKilo) != nullptr);
    const int64_t settled = WorkspaceAllocations();
    RecycleWorkspaces();
    CHECK(RunKernel({kKilo}));
    CHECK(WorkspaceAllocations() == settled);
  });
}

TEST(NoMemoryForAWorkspaceIsAnError) {
  InThread([] {
    for (uint64_t bytes : {UINT64_MAX, UINT64_MAX - 64, uint64_t{1} << 63}) {
      CHECK(AllocWorkspace(kDLCPU, 0, bytes, kDLFloat, 32) == nullptr);
      CHECK_CONTAINS(RaisedError(), "no memory for a kernel's workspace of " +
                                        std::to_string(bytes));
    }
    CHECK(RunKernel({kKilo}));
  });
}

TEST(AWorkspaceOfAnotherThreadIsRefused) {
  InThread([] {
    int there = 0;
    CHECK(Free(&there) == -1);
    CHECK_CONTAINS(RaisedError(), "that its thread did not take");
  });
}

TEST(WorkspacesOfOtherDevicesAreForTvm) {
  CHECK(Alloc(kKilo, kDLCUDA) == nullptr);
  CHECK_CONTAINS(RaisedError(), "TVM's runtime to give, but that is not loaded");
  CHECK(Free(nullptr, kDLCUDA) == -1);
  CHECK_CONTAINS(RaisedError(), "TVM's runtime");
}

TEST(RegisteredTwiceWorkspacesAreInTheListOnce) {
  int found = 0;
  for (int i = 0; i < 3; ++i) RegisterKernelContext();
  ffi::Module::VisitContextSymbols(
      ffi::TypedFunction<void(ffi::String, void*)>([&](const ffi::String& name, void* function) {
        found += name == "__TVMBackendAllocWorkspace" &&
                 function == reinterpret_cast<void*>(AllocWorkspace);
      }));
  CHECK(found == 1);
}

}  // namespace
}  // namespace tvm_hetero::tests
