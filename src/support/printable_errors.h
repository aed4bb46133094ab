/*!
 * \file support/printable_errors.h
 * \brief What an error quotes of a file is its author's text, and goes to a terminal.
 */
#ifndef TVM_HETERO_SUPPORT_PRINTABLE_ERRORS_H_
#define TVM_HETERO_SUPPORT_PRINTABLE_ERRORS_H_

#include <tvm/ffi/error.h>

#include <string>

namespace tvm_hetero {

namespace ffi = tvm::ffi;

/*!
 * \brief Text that is safe to show: one line, of at most 2,000 bytes.
 *
 * What cannot be seen (control characters, direction marks, what is no UTF-8) becomes backslash
 * escapes, as in tvm_hetero/util/untrusted_names.py; of what is longer the middle is left out.
 */
std::string Printable(const std::string& text);

/*! \brief Throw an error again, its text made printable. */
[[noreturn]] void ThrowPrintable(const ffi::Error& error);

/*! \brief What a call returns; the texts of its errors are printable. */
template <typename F>
auto WithPrintableErrors(F&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const ffi::Error& error) {
    ThrowPrintable(error);
  }
}

}  // namespace tvm_hetero
#endif  // TVM_HETERO_SUPPORT_PRINTABLE_ERRORS_H_
