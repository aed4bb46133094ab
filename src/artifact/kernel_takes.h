/*!
 * \file artifact/kernel_takes.h
 * \brief What the kernels of an artifact's libraries take.
 *
 * Kernels do not look at their arguments: one that is given an argument twice writes its result
 * where its weights are. So each call of a plan is held against what its kernel takes. Python does
 * the same (tvm_hetero/plan/kernel_takes.py).
 */
#ifndef TVM_HETERO_ARTIFACT_KERNEL_TAKES_H_
#define TVM_HETERO_ARTIFACT_KERNEL_TAKES_H_

#include <tvm_hetero/plan.h>

#include <string>

namespace tvm_hetero {

/*!
 * \brief Refuse a plan that gives a kernel anything but what it takes.
 * \param kernels The document "tvm-hetero/kernels/1"; one without "takes" refuses nothing.
 * \param path Of that document, for messages.
 * \throws ValueError naming the step, the task, the kernel and the first argument that differs.
 */
void CheckTakes(const Plan& plan, const std::string& kernels, const std::string& path);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_ARTIFACT_KERNEL_TAKES_H_
