#include "memory/workspace.h"

#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "memory/host_memory.h"
#include "support/faults.h"
#include "support/kernel_context.h"

namespace tvm_hetero {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kHugeFrom = kHugePage / 2;  // half a huge page that is not used is the most

// Without destructors: threads may run kernels while the process ends.
std::atomic<int64_t> allocations{0};
std::atomic<int64_t> bytes_now{0};

/*! \brief The size of the block for so many bytes: few sizes, which serve many kernels. */
uint64_t BlockSize(uint64_t bytes) {
  if (bytes > PTRDIFF_MAX) return bytes;  // which nobody can have
  const uint64_t unit = bytes >= kHugeFrom ? kHugePage : kPage;
  return std::max<uint64_t>((bytes + unit - 1) / unit, 1) * unit;
}

struct Block {
  void* data;
  uint64_t bytes;
};

bool IsSmaller(const Block& block, uint64_t bytes) { return block.bytes < bytes; }

/*! \brief The blocks of one thread. */
class WorkspacePool {
 public:
  WorkspacePool() = default;
  WorkspacePool(const WorkspacePool&) = delete;
  WorkspacePool& operator=(const WorkspacePool&) = delete;
  ~WorkspacePool() {
    Recycle();
    GiveUp();
  }

  /*! \brief A block of at least so many bytes; throws where there is none. */
  void* Take(uint64_t bytes) {
    // The kernel whose request failed here before has ended since: it gave nothing back, and of
    // threads of a team nobody else knows.
    if (failed_) Recycle();
    failed_ = true;
    MaybeFail(FaultKind::kWorkspace);
    const uint64_t size = BlockSize(bytes);
    auto found = std::lower_bound(free_.begin(), free_.end(), size, IsSmaller);
    if (found == free_.end()) {
      held_.push_back(Fresh(size));
    } else {
      held_.push_back(*found);  // there is room for it: see Fresh
      free_.erase(found);
    }
    failed_ = false;
    return held_.back().data;
  }

  /*! \brief Take a block back. \return false if it is not of this thread. */
  bool Give(void* data) noexcept {
    // Mostly the last one: kernels give back in the reverse order.
    auto found = std::find_if(held_.rbegin(), held_.rend(),
                              [data](const Block& block) { return block.data == data; });
    if (found == held_.rend()) return false;
    Keep(*found);
    held_.erase(std::next(found).base());
    return true;
  }

  /*! \brief Keep none that no kernel has. */
  void GiveUp() noexcept {
    while (!free_.empty()) DropLargest();
  }

  /*! \brief Take back all blocks. */
  void Recycle() noexcept {
    for (const Block& block : held_) Keep(block);
    held_.clear();
    failed_ = false;
  }

 private:
  /*! \brief A block of the system's memory, in place of the largest free one: it is too small. */
  Block Fresh(uint64_t size) {
    if (!free_.empty()) DropLargest();
    // For each block in both lists, so that giving back needs no memory.
    const size_t count = free_.size() + held_.size() + 1;
    free_.reserve(count);
    held_.reserve(count);
    void* data = AllocateHost(size);
    if (data == nullptr) {
      TVM_FFI_THROW(MemoryError) << "no memory for a kernel's workspace of " << size << " bytes";
    }
    allocations.fetch_add(1, std::memory_order_relaxed);
    bytes_now.fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed);
    return Block{data, size};
  }

  void Keep(const Block& block) noexcept {
    free_.insert(std::lower_bound(free_.begin(), free_.end(), block.bytes, IsSmaller), block);
  }

  void DropLargest() noexcept {
    FreeHost(free_.back().data, free_.back().bytes);
    bytes_now.fetch_sub(static_cast<int64_t>(free_.back().bytes), std::memory_order_relaxed);
    free_.pop_back();
  }

  std::vector<Block> free_;  //!< by size
  std::vector<Block> held_;  //!< by kernels, in the order in which they took them
  bool failed_{false};       //!< whether the last Take threw
};

// Without a destructor: tells also when the pool is gone, to what else ends with the thread.
thread_local bool thread_ends = false;

struct ThreadPool : WorkspacePool {
  ~ThreadPool() { thread_ends = true; }
};

/*! \brief The calling thread's pool; null where the thread is at its end. */
WorkspacePool* PoolOfThread() {
  if (thread_ends) return nullptr;
  static thread_local ThreadPool pool;
  return &pool;
}

void* AllocOnCpu(uint64_t bytes) {
  if (WorkspacePool* pool = PoolOfThread()) return pool->Take(bytes);
  void* data = AllocateUnsized(BlockSize(bytes));
  if (data == nullptr) TVM_FFI_THROW(MemoryError) << "no memory for a kernel's workspace";
  return data;
}

void FreeOnCpu(void* data) {
  WorkspacePool* pool = PoolOfThread();
  if (pool == nullptr) return FreeUnsized(data);
  if (pool->Give(data)) return;
  TVM_FFI_THROW(RuntimeError) << "a kernel gives back a workspace that its thread did not take";
}

/*! \brief TVM's own function; throws where its runtime is not loaded. */
void* WorkspacesOfTvm(const char* name) {
  void* function = FunctionOfTvm(name);
  if (function == nullptr) {
    TVM_FFI_THROW(RuntimeError) << "a kernel wants a workspace on a device that is no CPU, which "
                                << "is for TVM's runtime to give, but that is not loaded";
  }
  return function;
}

/*! \brief Do it for code that knows no exceptions: it is the thread's raised error instead. */
template <typename Body>
bool WithoutThrowing(const Body& body) noexcept {
  try {
    body();
    return true;
  } catch (const ffi::Error& error) {
    TVMFFIErrorSetRaisedFromCStr(error.kind().c_str(), error.message().c_str());
  } catch (const std::exception& error) {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", error.what());
  }
  return false;
}

}  // namespace

void* AllocWorkspace(int device_type, int device_id, uint64_t bytes, int dtype_code,
                     int dtype_bits) noexcept {
  void* data = nullptr;
  WithoutThrowing([&] {
    if (device_type == kDLCPU) {
      data = AllocOnCpu(bytes);
      return;
    }
    static const auto tvms =
        reinterpret_cast<decltype(&AllocWorkspace)>(WorkspacesOfTvm("TVMBackendAllocWorkspace"));
    data = tvms(device_type, device_id, bytes, dtype_code, dtype_bits);
  });
  return data;
}

int FreeWorkspace(int device_type, int device_id, void* data) noexcept {
  int status = 0;
  const bool done = WithoutThrowing([&] {
    if (device_type == kDLCPU) return FreeOnCpu(data);
    static const auto tvms =
        reinterpret_cast<decltype(&FreeWorkspace)>(WorkspacesOfTvm("TVMBackendFreeWorkspace"));
    status = tvms(device_type, device_id, data);
  });
  return done ? status : -1;
}

void RecycleWorkspaces() noexcept {
  if (WorkspacePool* pool = PoolOfThread()) pool->Recycle();
}

void GiveUpWorkspaces() noexcept {
  if (WorkspacePool* pool = PoolOfThread()) pool->GiveUp();
}

int64_t WorkspaceAllocations() { return allocations.load(std::memory_order_relaxed); }

int64_t WorkspaceBytes() { return bytes_now.load(std::memory_order_relaxed); }

TVM_FFI_STATIC_INIT_BLOCK() {
  OfferToKernels("__TVMBackendAllocWorkspace", reinterpret_cast<void*>(AllocWorkspace));
  OfferToKernels("__TVMBackendFreeWorkspace", reinterpret_cast<void*>(FreeWorkspace));
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def("tvm_hetero.workspace_allocations", WorkspaceAllocations)
      .def("tvm_hetero.workspace_bytes", WorkspaceBytes);
}

}  // namespace tvm_hetero
