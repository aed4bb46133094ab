/*!
 * \file support/faults.h
 * \brief Failures on purpose, so that tests can try the n-th thing that may go wrong, for every n.
 *
 *   tvm_hetero.inject_fault(kind, nth)   the nth pass of a point of that kind, from 1 and from now
 *                                        on, fails, once; 0 disarms the kind
 *   tvm_hetero.fault_count(kind)         how often points of that kind were passed since then
 *
 * kind is "kernel" (each kernel of a kernels step, each call step), "copy", "allocation" (of a
 * tensor or scratch), "worker" (the start of a worker's thread, and its loop before each step) or
 * "workspace" (each that a kernel asks for). A point costs one load of a flag that nobody writes unless
 * something is armed.
 */
#ifndef TVM_HETERO_SUPPORT_FAULTS_H_
#define TVM_HETERO_SUPPORT_FAULTS_H_

#include <tvm/ffi/string.h>

#include <atomic>

namespace tvm_hetero {

namespace ffi = tvm::ffi;

enum class FaultKind { kKernel, kCopy, kAllocation, kWorker, kWorkspace };

namespace details {

extern std::atomic<bool> faults_armed;
void PassFaultPoint(FaultKind kind);

}  // namespace details

/*! \brief A point that can be made to fail: throws RuntimeError "injected fault: ...". */
inline void MaybeFail(FaultKind kind) {
  if (details::faults_armed.load(std::memory_order_relaxed)) details::PassFaultPoint(kind);
}

}  // namespace tvm_hetero
#endif  // TVM_HETERO_SUPPORT_FAULTS_H_
