/*!
 * \file support/parse_json.h
 * \brief JSON from files that may come from anywhere.
 */
#ifndef TVM_HETERO_SUPPORT_PARSE_JSON_H_
#define TVM_HETERO_SUPPORT_PARSE_JSON_H_

#include <tvm/ffi/extra/json.h>

#include <string>

namespace tvm_hetero {

namespace ffi = tvm::ffi;

/*!
 * \brief Parse a text; `document` is what messages begin with.
 *
 * What tvm-ffi's parser would take and is no JSON, or would end the process, is refused before
 * (`CheckStrictJson`).
 */
ffi::Any ParseJson(const std::string& text, const std::string& document);

/*! \brief All of a plain file that is no larger than a document; else ValueError, naming it. */
std::string ReadText(const std::string& path);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_SUPPORT_PARSE_JSON_H_
