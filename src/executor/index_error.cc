/*!
 * \file executor/index_error.cc
 * \brief What kernels call when data tell them a place outside of a tensor.
 *
 * The compiler (tvm_hetero/kernels/indexing/checks.py) writes these calls; a process that compiles has
 * a function of the same name already, in Python, of which this one takes the place.
 */
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

#include <cstdint>
#include <string>

namespace tvm_hetero {
namespace {

namespace ffi = tvm::ffi;

/*! \brief An index was given for an axis of a tensor that is none of least .. length - 1. */
void RaiseIndexError(const ffi::String& tensor, int64_t axis, int64_t index, int64_t least,
                     int64_t length) {
  std::string text = "index " + std::to_string(index) + " is out of bounds for axis " +
                     std::to_string(axis) + " of size " + std::to_string(length) + " of " +
                     std::string(tensor) + ": expected " + std::to_string(least) + " to " +
                     std::to_string(length - 1);
  throw ffi::Error("IndexError", text, "");
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  ffi::Function::SetGlobal("tvm_hetero.index_error", ffi::Function::FromTyped(RaiseIndexError),
                           true);
}

}  // namespace tvm_hetero
