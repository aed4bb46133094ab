#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>
#include <tvm_hetero/safetensors.h>

#include <algorithm>

#include "memory/device_api.h"
#include "support/json_object.h"
#include "support/parse_json.h"
#include "support/plain_file.h"
#include "support/printable_errors.h"

namespace tvm_hetero {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLongestHeader = 100 * 1000 * 1000;  // as in the reference implementation
constexpr const char* kMetadata = "__metadata__";       // for people; holds no tensor

struct StoredType {
  const char* stored;
  const char* dtype;
};

constexpr StoredType kStoredTypes[] = {
    {"F32", "float32"}, {"F16", "float16"}, {"BF16", "bfloat16"},        {"F64", "float64"},
    {"I8", "int8"},     {"I16", "int16"},   {"I32", "int32"},            {"I64", "int64"},
    {"U8", "uint8"},    {"U16", "uint16"},  {"U32", "uint32"},           {"U64", "uint64"},
    {"BOOL", "bool"},   {"F8_E4M3", "float8_e4m3fn"}, {"F8_E5M2", "float8_e5m2"},
};

DLDataType ParseStoredType(JsonObject& row) {
  std::string name = row.String("dtype");
  for (const StoredType& type : kStoredTypes) {
    if (name == type.stored) return ffi::StringToDLDataType(ffi::String(type.dtype));
  }
  row.Fail("dtype", "is \"" + name + "\", expected a type such as \"F32\"");
}

/*! \brief Bytes of a tensor; refuses negative sizes and what does not fit 63 bits. */
uint64_t BytesOf(JsonObject& row, const std::vector<int64_t>& shape, DLDataType dtype) {
  int64_t bytes = dtype.bits / 8;
  bool is_empty = false;
  for (int64_t size : shape) {
    is_empty = is_empty || size == 0;
    // A size of 0 hides none that are too large: strides are computed from them all the same.
    if (size < 0 || __builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes)) {
      row.Fail("shape", "has a negative size, or more elements than can be counted");
    }
  }
  return is_empty ? 0 : static_cast<uint64_t>(bytes);
}

StoredTensor ParseStoredTensor(JsonObject row, uint64_t data_begin, uint64_t data_bytes) {
  StoredTensor tensor;
  tensor.dtype = ParseStoredType(row);
  tensor.shape = row.Int64s("shape");
  std::vector<int64_t> range = row.Int64s("data_offsets");
  row.Finish();
  // Each is compared with what is left, not added up: a sum could overflow.
  if (range.size() != 2 || range[0] < 0 || range[1] < range[0] ||
      static_cast<uint64_t>(range[1]) > data_bytes) {
    row.Fail("data_offsets", "is not a range [begin, end) within the " +
                                 std::to_string(data_bytes) + " bytes that follow the header");
  }
  tensor.begin = data_begin + static_cast<uint64_t>(range[0]);
  tensor.bytes = static_cast<uint64_t>(range[1] - range[0]);
  uint64_t expected = BytesOf(row, tensor.shape, tensor.dtype);
  if (tensor.bytes != expected) {
    row.Fail("data_offsets", "has " + std::to_string(tensor.bytes) + " bytes, expected " +
                                 std::to_string(expected) + " by its shape");
  }
  return tensor;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path)
    : file_(std::make_unique<PlainFile>(path)) {
  WithPrintableErrors([&] {
    uint64_t data_begin = 0;
    std::string header = ReadHeader(&data_begin);
    ParseHeader(header, data_begin);
    CheckLayout(data_begin);
  });
}

SafetensorsFile::~SafetensorsFile() = default;

std::string SafetensorsFile::ReadHeader(uint64_t* data_begin) const {
  if (file_->size() < kLengthBytes) {
    TVM_FFI_THROW(ValueError) << file_->path() << ": has " << file_->size()
                              << " bytes, too few for safetensors";
  }
  unsigned char raw[kLengthBytes];
  file_->ReadAt(0, kLengthBytes, reinterpret_cast<char*>(raw));
  uint64_t length = 0;
  for (uint64_t i = kLengthBytes; i-- > 0;) length = length << 8 | raw[i];
  if (length > file_->size() - kLengthBytes || length > kLongestHeader) {
    TVM_FFI_THROW(ValueError) << file_->path() << ": its header has " << length
                              << " bytes, expected at most "
                              << std::min(file_->size() - kLengthBytes, kLongestHeader);
  }
  std::string header(length, '\0');
  file_->ReadAt(kLengthBytes, length, &header[0]);
  *data_begin = kLengthBytes + length;
  return header;
}

void SafetensorsFile::ParseHeader(const std::string& header, uint64_t data_begin) {
  auto rows = ParseJson(header, file_->path()).as<ffi::json::Object>();
  if (!rows.has_value()) {
    TVM_FFI_THROW(ValueError) << file_->path() << ": its header is no JSON object";
  }
  for (const auto& [key, row] : *rows) {
    std::string name(key.cast<ffi::String>());
    if (name == kMetadata) continue;
    JsonObject object(row, "tensor '" + name + "'", file_->path());
    tensors_.emplace(
        name, ParseStoredTensor(std::move(object), data_begin, file_->size() - data_begin));
  }
}

/*! \brief Each byte behind the header belongs to exactly one tensor. */
void SafetensorsFile::CheckLayout(uint64_t data_begin) const {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const auto& [name, tensor] : tensors_) ranges.emplace_back(tensor.begin, tensor.bytes);
  std::sort(ranges.begin(), ranges.end());
  uint64_t end = data_begin;
  for (const auto& [begin, bytes] : ranges) {
    if (begin != end) break;
    end += bytes;
  }
  if (end != file_->size()) {
    TVM_FFI_THROW(ValueError) << file_->path()
                              << ": its tensors have gaps or overlap, or bytes follow, from byte "
                              << end << " of " << file_->size() << " on";
  }
}

ffi::Tensor SafetensorsFile::Read(const std::string& name, DLDevice device) const {
  auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    TVM_FFI_THROW(ValueError) << file_->path() << ": there is no tensor '" << name << "'";
  }
  const StoredTensor& stored = found->second;
  ffi::ShapeView shape(stored.shape.data(), stored.shape.size());
  ffi::Tensor tensor = Empty(shape, stored.dtype, device);
  file_->ReadAt(stored.begin, stored.bytes, static_cast<char*>(tensor.data_ptr()));
  return tensor;
}

}  // namespace tvm_hetero
