#include "executor/numerics.h"

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "memory/device_api.h"
#include "support/device_name.h"

namespace tvm_hetero {
namespace {

/*! \brief A kind of float: which of its bits are the exponent. The highest bit is the sign. */
template <typename Bits, Bits kExponent>
struct FloatKind {
  // All ones in the exponent: an infinity if nothing but the sign is beside them, else NaN.
  static bool IsNonFinite(Bits bits) { return (bits & kExponent) == kExponent; }

  static double Value(Bits bits) {
    constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    if ((bits & ~kSign) != kExponent) return std::numeric_limits<double>::quiet_NaN();
    double infinity = std::numeric_limits<double>::infinity();
    return (bits & kSign) ? -infinity : infinity;
  }

  static std::optional<NonFinite> Find(const void* data, int64_t size) {
    const Bits* bits = static_cast<const Bits*>(data);
    int64_t count = 0;
    for (int64_t i = 0; i < size; ++i) count += IsNonFinite(bits[i]);
    if (count == 0) return std::nullopt;
    int64_t first = 0;
    while (!IsNonFinite(bits[first])) ++first;
    return NonFinite{count, first, Value(bits[first])};
  }
};

using Float16 = FloatKind<uint16_t, 0x7c00>;
using BFloat16 = FloatKind<uint16_t, 0x7f80>;
using Float32 = FloatKind<uint32_t, 0x7f800000>;
using Float64 = FloatKind<uint64_t, 0x7ff0000000000000>;

using FindFunction = std::optional<NonFinite> (*)(const void* data, int64_t size);

/*! \brief How to look at a type, or null where there is nothing to look for. */
FindFunction FinderOf(DLDataType dtype) {
  if (dtype.code == kDLBfloat) return dtype.bits == 16 ? BFloat16::Find : nullptr;
  if (dtype.code != kDLFloat) return nullptr;
  switch (dtype.bits) {
    case 16:
      return Float16::Find;
    case 32:
      return Float32::Find;
    case 64:
      return Float64::Find;
    default:
      return nullptr;
  }
}

/*! \brief "3 of 1000 values of float32[10, 100], the first nan at [0, 7]". */
std::string Told(const NonFinite& found, const DLTensor& tensor) {
  std::ostringstream text;
  std::vector<int64_t> index(tensor.ndim);
  int64_t size = 1, rest = found.first / tensor.dtype.lanes;
  for (int axis = tensor.ndim - 1; axis >= 0; --axis) {
    index[axis] = rest % tensor.shape[axis];
    rest /= tensor.shape[axis];
    size *= tensor.shape[axis];
  }
  text << found.count << " of " << size * tensor.dtype.lanes << " values of "
       << TypeName(tensor.dtype, tensor.shape, tensor.ndim) << ", the first "
       << (std::isnan(found.value) ? "nan" : found.value < 0 ? "-inf" : "inf") << " at [";
  for (int axis = 0; axis < tensor.ndim; ++axis) text << (axis ? ", " : "") << index[axis];
  text << "]";
  return text.str();
}

/*! \brief Which inputs of a kernel were not finite when it had ended. */
std::string InputsTold(const CallPlan& call, const DLTensor* args) {
  std::string text;
  for (size_t i = 0; i + call.written < call.args.size(); ++i) {
    if (std::optional<NonFinite> found = FindNonFinite(args[i])) {
      text += "; its input " + std::to_string(i) + " was not finite already: " +
              Told(*found, args[i]);
    }
  }
  return text.empty() ? "; its inputs were finite" : text;
}

}  // namespace

std::optional<NonFinite> FindNonFinite(const DLTensor& tensor) {
  FindFunction find = FinderOf(tensor.dtype);
  if (find == nullptr) return std::nullopt;
  int64_t size = tensor.dtype.lanes;
  for (int axis = 0; axis < tensor.ndim; ++axis) size *= tensor.shape[axis];
  if (IsCpu(tensor.device)) {
    return find(static_cast<const char*>(tensor.data) + tensor.byte_offset, size);
  }
  std::vector<char> host(ffi::GetDataSize(tensor));
  CopyToHost(tensor, host.data());
  return find(host.data(), size);
}

void CheckFinite(const CallPlan& call, const DLTensor* args) {
  size_t reads = call.args.size() - call.written;
  for (size_t i = reads; i < call.args.size(); ++i) {
    std::optional<NonFinite> found = FindNonFinite(args[i]);
    if (!found) continue;
    std::string text = "output " + std::to_string(i - reads) + " is not finite: " +
                       Told(*found, args[i]) + InputsTold(call, args);
    throw ffi::Error("NumericsError", text, "");
  }
}

}  // namespace tvm_hetero
