/*!
 * \file executor/worker_errors.h
 * \brief What is told of an exception that a worker has caught.
 */
#ifndef TVM_HETERO_EXECUTOR_WORKER_ERRORS_H_
#define TVM_HETERO_EXECUTOR_WORKER_ERRORS_H_

#include <tvm/ffi/error.h>

#include <exception>
#include <string>

namespace tvm_hetero {

/*! \brief An exception's text; an ffi error says its kind too ("ZeroDivisionError: ..."). */
inline std::string Described(const std::exception& error) {
  const auto* typed = dynamic_cast<const tvm::ffi::Error*>(&error);
  return typed == nullptr ? error.what() : typed->kind() + ": " + typed->message();
}

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_WORKER_ERRORS_H_
