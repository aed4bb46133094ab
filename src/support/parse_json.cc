#include "support/parse_json.h"

#include <tvm/ffi/error.h>

#include "support/plain_file.h"
#include "support/strict_json.h"

namespace tvm_hetero {
namespace {

constexpr uint64_t kLongestDocument = uint64_t{128} << 20;  // as in tvm_hetero/util/documents.py

}  // namespace

ffi::Any ParseJson(const std::string& given, const std::string& document) {
  std::string text = given;
  CheckStrictJson(&text, document);
  ffi::String error;
  ffi::Any value = ffi::json::Parse(ffi::String(text), &error);
  if (!error.empty()) TVM_FFI_THROW(ValueError) << document << ": not a JSON document: " << error;
  return value;
}

std::string ReadText(const std::string& path) {
  const PlainFile file(path);
  if (file.size() > kLongestDocument) {
    TVM_FFI_THROW(ValueError) << path << ": cannot be read: it is larger than " << kLongestDocument
                              << " bytes";
  }
  std::string text(file.size(), '\0');
  file.ReadAt(0, text.size(), &text[0]);
  return text;
}

}  // namespace tvm_hetero
