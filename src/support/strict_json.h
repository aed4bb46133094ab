/*!
 * \file support/strict_json.h
 * \brief Whether a text is JSON, before a parser sees it that is laxer and calls itself.
 */
#ifndef TVM_HETERO_SUPPORT_STRICT_JSON_H_
#define TVM_HETERO_SUPPORT_STRICT_JSON_H_

#include <string>

namespace tvm_hetero {

/*!
 * \brief Refuse (ValueError) what is not JSON by RFC 8259, or is beyond a limit, or ambiguous.
 *
 * tvm-ffi's parser takes `01`, `+1`, `NaN` and bytes that are no UTF-8, keeps the last of two values
 * of one key, and calls itself for each level, so that a megabyte of "[" would end the process. What
 * is taken here is what `tvm_hetero/util/strict_json.py` takes. It takes no subnormal numbers, which
 * Python writes: those become 0 in `text`. (Nobody reads a document's floats in C++.)
 *
 * \param document What messages begin with.
 */
void CheckStrictJson(std::string* text, const std::string& document);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_SUPPORT_STRICT_JSON_H_
