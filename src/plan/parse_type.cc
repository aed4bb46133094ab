#include "plan/parse_type.h"

#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/string.h>

#include <string>

namespace tvm_hetero {

DLDataType ParseType(JsonObject& row) {
  std::string text = row.String("dtype");
  DLDataType dtype{};
  try {
    dtype = ffi::StringToDLDataType(ffi::String(text));
  } catch (const ffi::Error&) {
  }
  if (dtype.bits == 0 || dtype.lanes == 0 || dtype.code == kDLOpaqueHandle) {
    row.Fail("dtype", "is \"" + text + "\", expected a type such as \"float32\"");
  }
  return dtype;
}

}  // namespace tvm_hetero
