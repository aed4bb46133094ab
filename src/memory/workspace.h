/*!
 * \file memory/workspace.h
 * \brief The memory that compiled kernels ask for while they run, such as padded images.
 *
 * Kernels call TVM's functions for it, or what was put in their place (support/kernel_context.h).
 * TVM's give memory in small pages. Ours give huge ones from a megabyte on, of which a core finds
 * the addresses sooner.
 *
 * Each thread keeps the blocks that its kernels have given back, and takes the smallest that does.
 * Where none does, the largest one makes room for a new one. So a thread has no more blocks than a
 * kernel held at once, none larger than the largest that one asked for, and from some run on
 * nothing is allocated any more. A thread's blocks go when it ends, or gives them up.
 *
 * Seen as functions of tvm-ffi:
 *
 *   tvm_hetero.workspace_allocations()    how many blocks all threads have had from the system
 *   tvm_hetero.workspace_bytes()          how many bytes their blocks have now
 */
#ifndef TVM_HETERO_MEMORY_WORKSPACE_H_
#define TVM_HETERO_MEMORY_WORKSPACE_H_

#include <cstdint>

namespace tvm_hetero {

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
 * \brief Give back the blocks of the calling thread that no kernel has, for other threads to take.
 *
 * For who will run no more kernels, before somebody else runs them in his place.
 */
void GiveUpWorkspaces() noexcept;

int64_t WorkspaceAllocations();
int64_t WorkspaceBytes();

}  // namespace tvm_hetero
#endif  // TVM_HETERO_MEMORY_WORKSPACE_H_
