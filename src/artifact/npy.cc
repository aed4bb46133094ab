#include <tvm/ffi/error.h>
#include <tvm_hetero/npy.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "memory/device_api.h"
#include "support/device_name.h"
#include "support/plain_file.h"
#include "support/printable_errors.h"

namespace tvm_hetero {
namespace {

constexpr size_t kPreamble = 10;  // "\x93NUMPY", version 1.0, length of the header (2 bytes)
constexpr size_t kBoundary = 64;  // of the data's start

[[noreturn]] void FailNpy(const std::string& path, const std::string& text) {
  TVM_FFI_THROW(ValueError) << Printable(path + ": " + text);
  TVM_FFI_UNREACHABLE();
}

/*! \brief numpy's word for a type ("<f4"); "" where it has none. */
std::string NpyType(DLDataType dtype) {
  if (dtype.lanes != 1 || dtype.bits % 8 != 0) return "";
  const char* kind = dtype.code == kDLInt     ? "i"
                     : dtype.code == kDLUInt  ? "u"
                     : dtype.code == kDLFloat ? "f"
                     : dtype.code == kDLBool  ? "b"
                                              : nullptr;
  if (kind == nullptr) return "";
  return (dtype.bits == 8 ? "|" : "<") + std::string(kind) + std::to_string(dtype.bits / 8);
}

DLDataType ParseNpyType(const std::string& path, const std::string& text) {
  for (uint8_t code : {kDLFloat, kDLInt, kDLUInt, kDLBool}) {
    for (uint8_t bits : {8, 16, 32, 64}) {
      DLDataType dtype{code, bits, 1};
      if (NpyType(dtype) == text && !(code == kDLFloat && bits == 8)) return dtype;
    }
  }
  FailNpy(path, "its type is '" + text + "', expected a number such as '<f4'");
}

std::vector<int64_t> ParseNpyShape(const std::string& path, const std::string& text) {
  std::vector<int64_t> shape;
  std::istringstream numbers(text);
  for (std::string item; std::getline(numbers, item, ',');) {
    if (item.find_first_not_of(' ') == std::string::npos) continue;
    if (item.find_first_not_of(" 0123456789") != std::string::npos || item.size() > 18) {
      FailNpy(path, "its shape is (" + text + "), expected sizes");
    }
    shape.push_back(std::stoll(item));
  }
  return shape;
}

/*! \brief Bytes of an array, which must be those that are left in the file. */
void CheckNpyLength(const std::string& path, const std::vector<int64_t>& shape, DLDataType dtype,
                    int64_t left) {
  int64_t bytes = dtype.bits / 8, stride = bytes;
  for (int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes) ||
        __builtin_mul_overflow(stride, std::max<int64_t>(size, 1), &stride)) {
      FailNpy(path, "has more elements than can be counted");
    }
  }
  if (bytes != left) {
    FailNpy(path, "has " + std::to_string(left) + " bytes of data, expected " +
                      std::to_string(bytes) + " by its shape");
  }
}

std::string ReadNpyHeader(const PlainFile& file) {
  unsigned char preamble[kPreamble] = {};
  file.ReadAt(0, std::min<uint64_t>(kPreamble, file.size()), reinterpret_cast<char*>(preamble));
  if (std::memcmp(preamble, "\x93NUMPY\x01\x00", 8) != 0) {
    FailNpy(file.path(), "is no .npy file of version 1.0");
  }
  std::string header(preamble[8] + 256 * preamble[9], '\0');
  file.ReadAt(kPreamble, header.size(), &header[0]);
  return header;
}

/*! \brief What stands between two parts of a header, the first of which is where we are. */
std::string Between(const std::string& path, const std::string& header, size_t* place,
                    const std::string& before, const std::string& after) {
  size_t begin = *place + before.size();
  size_t end = header.find(after, begin);
  if (header.compare(*place, before.size(), before) != 0 || end == std::string::npos) {
    FailNpy(path, "its header is " + header.substr(0, 80) + ", expected a C-contiguous array");
  }
  *place = end;
  return header.substr(begin, end - begin);
}

}  // namespace

ffi::Tensor ReadNpy(const std::string& path) {
  const PlainFile file(path);
  std::string header = ReadNpyHeader(file);
  size_t place = 0;  // numpy itself writes the three keys in this order
  DLDataType dtype = ParseNpyType(path, Between(path, header, &place, "{'descr': '", "'"));
  std::vector<int64_t> shape = ParseNpyShape(
      path, Between(path, header, &place, "', 'fortran_order': False, 'shape': (", ")"));

  const uint64_t begin = kPreamble + header.size();
  CheckNpyLength(path, shape, dtype, static_cast<int64_t>(file.size() - begin));
  ffi::Tensor tensor =
      Empty(ffi::ShapeView(shape.data(), shape.size()), dtype, DLDevice{kDLCPU, 0});
  file.ReadAt(begin, file.size() - begin, static_cast<char*>(tensor.data_ptr()));
  return tensor;
}

void WriteNpy(const std::string& path, const ffi::Tensor& tensor) {
  std::string type = NpyType(tensor.dtype());
  ffi::ShapeView sizes = tensor.shape();
  if (type.empty() || !tensor.IsContiguous() || !IsCpu(tensor.device())) {
    FailNpy(path, "cannot hold " + TypeName(tensor.dtype(), sizes.data(), sizes.size()) + " on " +
                      DeviceName(tensor.device()));
  }
  std::string shape;
  for (int64_t size : sizes) shape += std::to_string(size) + ", ";
  if (sizes.size() > 1) shape.resize(shape.size() - 2);  // "(3, 4)", but "(3,)"
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize((kPreamble + header.size()) / kBoundary * kBoundary + kBoundary - kPreamble, ' ');
  header.back() = '\n';

  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const char preamble[] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, static_cast<char>(header.size()),
                           static_cast<char>(header.size() >> 8)};
  file.write(preamble, kPreamble);
  file << header;
  file.write(static_cast<const char*>(tensor.data_ptr()) + tensor.byte_offset(),
             static_cast<std::streamsize>(ffi::GetDataSize(*tensor.GetDLTensorPtr())));
  file.close();
  if (!file) FailNpy(path, "cannot be written");
}

}  // namespace tvm_hetero
