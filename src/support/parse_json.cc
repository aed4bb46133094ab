#include "support/parse_json.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace tvm_hetero {
namespace {

constexpr int kDeepest = 64;

/*! \brief How deep brackets are nested, not counting those within strings. */
int NestingOf(const std::string& text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char letter = text[i];
    if (letter == '"') in_string = !in_string;
    if (in_string && letter == '\\') ++i;  // what follows is no end of the string
    if (in_string) continue;
    if (letter == '[' || letter == '{') deepest = std::max(deepest, ++depth);
    if (letter == ']' || letter == '}') --depth;
  }
  return deepest;
}

}  // namespace

ffi::Any ParseJson(const std::string& text, const std::string& document) {
  if (NestingOf(text) > kDeepest) {
    TVM_FFI_THROW(ValueError) << document << ": is nested more than " << kDeepest << " levels deep";
  }
  ffi::String error;
  ffi::Any value = ffi::json::Parse(ffi::String(text), &error);
  if (!error.empty()) TVM_FFI_THROW(ValueError) << document << ": not a JSON document: " << error;
  return value;
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.is_open() || file.bad()) {
    TVM_FFI_THROW(ValueError) << path << ": cannot be read";
  }
  return text;
}

}  // namespace tvm_hetero
