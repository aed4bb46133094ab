/*!
 * \file memory/workspace.h
 * \brief The memory that compiled kernels ask for while they run, such as padded images.
 *
 * Kernels call TVM's functions for it through two variables of their library, which tvm-ffi fills
 * as it loads the library: with what was registered last under these names (context symbols). TVM's
 * own are there from when its runtime is loaded; they give memory in small pages. Ours are
 * registered over them, and give huge ones from a megabyte on, of which a core finds the addresses
 * sooner.
 *
 * Each thread keeps the blocks that its kernels have given back, and takes the smallest that does.
 * Where none does, the largest one makes room for a new one. So a thread has no more blocks than a
 * kernel held at once, none larger than the largest that one asked for, and from some run on
 * nothing is allocated any more. A thread's blocks go when it ends.
 *
 * Seen as functions of tvm-ffi:
 *
 *   tvm_hetero.register_workspaces()      before a library is loaded; any number of times
 *   tvm_hetero.workspace_allocations()    how many blocks all threads have had from the system
 *   tvm_hetero.workspace_bytes()          how many bytes their blocks have now
 */
#ifndef TVM_HETERO_MEMORY_WORKSPACE_H_
#define TVM_HETERO_MEMORY_WORKSPACE_H_

#include <cstdint>

namespace tvm_hetero {

/*! \brief Let libraries that are loaded from now on take workspaces of ours. */
void RegisterWorkspaces();

/*!
 * \brief What kernels call. Null where there is no memory; the error is set as the thread's raised
 *        one, with which the kernel returns. A point of kWorkspace (faults.h).
 *
 * For another device than a CPU, TVM's own function does it.
 */
void* AllocWorkspace(int device_type, int device_id, uint64_t bytes, int dtype_code,
                     int dtype_bits) noexcept;

/*! \brief What kernels call with what AllocWorkspace gave this thread. \return 0, or -1. */
int FreeWorkspace(int device_type, int device_id, void* data) noexcept;

/*!
 * \brief Take back what kernels of the calling thread have not given back.
 *
 * One that fails returns without doing so. For when none is running on this thread.
 */
void RecycleWorkspaces() noexcept;

/*!
 * \brief Watches a kernel that the calling thread calls for failures in threads of TVM's pool.
 *
 * TVM counts a thread's part as done before it notes that it failed (thread_pool.cc,
 * SignalJobError). If it was the last part, the kernel may return as if nothing was wrong with its
 * output. Whose kernel a thread of the pool works for is not known: what runs on other workers at
 * the time may be told too, which is better than a wrong result.
 */
class WorkspaceWatch {
 public:
  WorkspaceWatch();

  /*! \brief For after the kernel: throws MemoryError if a workspace failed meanwhile. */
  void Check() const;

 private:
  int64_t before_;
};

int64_t WorkspaceAllocations();
int64_t WorkspaceBytes();

}  // namespace tvm_hetero
#endif  // TVM_HETERO_MEMORY_WORKSPACE_H_
