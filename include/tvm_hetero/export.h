/*!
 * \file tvm_hetero/export.h
 * \brief What other libraries and programs may use of ours: everything else is hidden.
 */
#ifndef TVM_HETERO_EXPORT_H_
#define TVM_HETERO_EXPORT_H_

#if defined(_WIN32)
#define TVM_HETERO_API
#else
#define TVM_HETERO_API __attribute__((visibility("default")))
#endif

#endif  // TVM_HETERO_EXPORT_H_
