#include "artifact/kernel_takes.h"

#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "plan/parse_type.h"
#include "plan/plan_text.h"
#include "support/device_name.h"
#include "support/json_object.h"
#include "support/parse_json.h"

namespace tvm_hetero {
namespace {

constexpr const char* kKernelsFormat = "tvm-hetero/kernels/1";

/*! \brief The arguments of a kernel, in order; it writes the last `written` of them. */
struct Signature {
  std::vector<TensorPlan> args;
  int64_t written;
};

/*! \brief By the kernel's name in a library, and the device whose library it is. */
using Signatures = std::map<std::pair<std::string, std::string>, Signature>;

Signature ParseSignature(JsonObject& row) {
  Signature signature;
  for (JsonObject& arg : row.Objects("args")) {
    signature.args.push_back(TensorPlan{arg.Int64s("shape"), ParseType(arg)});
    arg.Finish();
  }
  signature.written = row.Int("written");
  return signature;
}

Signatures ParseTakes(JsonObject& document) {
  Signatures takes;
  for (JsonObject& row : document.Objects("takes")) {
    std::pair<std::string, std::string> key(row.String("kernel"), row.String("device"));
    if (!takes.emplace(std::move(key), ParseSignature(row)).second) {
      row.Fail("kernel", "is there twice for its device, expected once");
    }
    row.Finish();
  }
  return takes;
}

bool SameType(const TensorPlan& a, const TensorPlan& b) {
  return a.dtype == b.dtype && a.shape == b.shape;
}

std::string TypeText(const TensorPlan& type) {
  return TypeName(type.dtype, type.shape.data(), type.shape.size());
}

/*! \brief Refuse an argument that is another than the kernel takes there, or is one too many. */
void CheckArgs(const CallPlan& call, const Signature& takes, const std::string& kernel) {
  const size_t given = call.args.size(), expected = takes.args.size();
  for (size_t i = 0; i < std::max(given, expected); ++i) {
    if (i < given && i < expected && SameType(call.args[i].type, takes.args[i])) continue;
    TVM_FFI_THROW(ValueError) << kernel << " is given " << given << " arguments, expected "
                              << expected << ": args[" << i << "] is "
                              << (i < given ? TypeText(call.args[i].type) : "none")
                              << ", expected " << (i < expected ? TypeText(takes.args[i]) : "none");
  }
}

void CheckCall(const Plan& plan, size_t step, size_t number, const Signatures& signatures) {
  const CallPlan& call = plan.steps[step].calls[number];
  const std::string& device = plan.workers[plan.steps[step].worker].name;
  const std::string place = "plan: " + QuotedCall(plan, step, number) + ": ";
  const std::string kernel = "kernel '" + call.kernel + "' of '" + device + "'";
  auto takes = signatures.find({call.kernel, device});
  if (takes == signatures.end()) {
    TVM_FFI_THROW(ValueError) << place << "nothing says what " << kernel
                              << " takes, expected one of the kernels of the artifact";
  }
  CheckArgs(call, takes->second, place + kernel);
  if (call.written == takes->second.written) return;
  TVM_FFI_THROW(ValueError) << place << kernel << ": written is " << call.written << ", expected "
                            << takes->second.written;
}

}  // namespace

void CheckTakes(const Plan& plan, const std::string& kernels, const std::string& path) {
  JsonObject document(ParseJson(kernels, path), "", path);
  document.RequireFormat(kKernelsFormat);
  const Signatures signatures = ParseTakes(document);
  for (size_t step = 0; step < plan.steps.size(); ++step) {
    for (size_t call = 0; call < plan.steps[step].calls.size(); ++call) {
      CheckCall(plan, step, call, signatures);
    }
  }
}

}  // namespace tvm_hetero
