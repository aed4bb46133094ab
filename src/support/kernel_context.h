/*!
 * \file support/kernel_context.h
 * \brief What compiled kernels call of the runtime that they are loaded into: ours in TVM's place.
 *
 * A kernel library has variables for the functions that it calls of a runtime. tvm-ffi fills them as
 * it loads the library, with what was registered last under their names (context symbols). TVM's own
 * are there from when its runtime is loaded; ours are registered over them.
 *
 * Seen as a function of tvm-ffi:
 *
 *   tvm_hetero.register_kernel_context()   before a library is loaded; any number of times
 */
#ifndef TVM_HETERO_SUPPORT_KERNEL_CONTEXT_H_
#define TVM_HETERO_SUPPORT_KERNEL_CONTEXT_H_

namespace tvm_hetero {

/*! \brief Name a function of ours for `RegisterKernelContext`; for static initialisers. */
void OfferToKernels(const char* symbol, void* function);

/*! \brief Let libraries that are loaded from now on call what was offered. */
void RegisterKernelContext();

/*! \brief TVM's own function of a name; null where its runtime is not loaded. */
void* FunctionOfTvm(const char* name);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_SUPPORT_KERNEL_CONTEXT_H_
