// From the JSON document to a Plan: one function for each kind of row.
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/string.h>
#include <tvm_hetero/plan.h>

#include "json_object.h"

namespace tvm_hetero {
namespace {

constexpr const char* kFormat = "tvm-hetero/plan/1";

int Index(JsonObject& row, const char* key) {
  int64_t number = row.Int(key);
  if (number < 0 || number > INT32_MAX) {
    row.Fail(key, "is " + std::to_string(number) + ", expected a number from 0 on");
  }
  return static_cast<int>(number);
}

DevicePlan ParseDevice(JsonObject row) {
  DevicePlan device;
  device.name = row.String("name");
  device.device.device_type = static_cast<DLDeviceType>(Index(row, "dl_type"));
  device.device.device_id = Index(row, "dl_id");
  row.Finish();
  return device;
}

WorkerPlan ParseWorker(JsonObject row) {
  WorkerPlan worker;
  worker.name = row.String("name");
  worker.device = Index(row, "device");
  worker.cores = row.Ints("cores");
  std::string role = row.String("role");
  if (role != "compute" && role != "copy") {
    row.Fail("role", "is \"" + role + "\", expected \"compute\" or \"copy\"");
  }
  worker.role = role == "copy" ? Role::kCopy : Role::kCompute;
  row.Finish();
  return worker;
}

SlotPlan ParseSlot(JsonObject row) {
  SlotPlan slot{row.String("name"), Index(row, "device")};
  row.Finish();
  return slot;
}

InputPlan ParseInput(JsonObject row) {
  InputPlan input;
  input.name = row.String("name");
  input.slot = Index(row, "slot");
  input.shape = row.Int64s("shape");
  std::string dtype = row.String("dtype");
  try {
    input.dtype = ffi::StringToDLDataType(ffi::String(dtype));
  } catch (const ffi::Error&) {
    row.Fail("dtype", "is \"" + dtype + "\", expected a type such as \"float32\"");
  }
  row.Finish();
  return input;
}

ConstantPlan ParseConstant(JsonObject row) {
  ConstantPlan constant{row.String("name"), Index(row, "slot")};
  row.Finish();
  return constant;
}

OutputPlan ParseOutput(JsonObject row) {
  OutputPlan output{row.String("name"), Index(row, "slot"), std::nullopt};
  if (row.Has("shape")) output.shape = row.Int64s("shape");
  row.Finish();
  return output;
}

StepPlan ParseStep(JsonObject row) {
  StepPlan step;
  std::string kind = row.String("kind");
  if (kind != "call" && kind != "copy") {
    row.Fail("kind", "is \"" + kind + "\", expected \"call\" or \"copy\"");
  }
  step.kind = kind == "copy" ? StepKind::kCopy : StepKind::kCall;
  step.name = row.String("name");
  step.worker = Index(row, "worker");
  step.ins = row.Ints("ins");
  step.outs = row.Ints("outs");
  if (step.kind == StepKind::kCopy) {
    step.to_device = Index(row, "to_device");
  } else {
    step.function = row.String("function");
  }
  row.Finish();
  return step;
}

template <typename Row>
std::vector<Row> Rows(JsonObject& document, const char* key, Row (*parse)(JsonObject)) {
  std::vector<Row> rows;
  for (const JsonObject& row : document.Objects(key)) rows.push_back(parse(row));
  return rows;
}

}  // namespace

Plan ParsePlan(const std::string& json) {
  ffi::String error;
  ffi::Any value = ffi::json::Parse(ffi::String(json), &error);
  if (!error.empty()) TVM_FFI_THROW(ValueError) << "plan: not a JSON document: " << error;

  JsonObject document(value, "");
  std::string format = document.String("format");
  if (format != kFormat) {
    document.Fail("format", "is \"" + format + "\", expected \"" + kFormat +
                                "\": build the artifact again with this version");
  }
  Plan plan;
  plan.devices = Rows(document, "devices", ParseDevice);
  plan.workers = Rows(document, "workers", ParseWorker);
  plan.slots = Rows(document, "slots", ParseSlot);
  plan.inputs = Rows(document, "inputs", ParseInput);
  plan.constants = Rows(document, "constants", ParseConstant);
  plan.outputs = Rows(document, "outputs", ParseOutput);
  plan.steps = Rows(document, "steps", ParseStep);
  document.Finish();
  CheckPlan(plan);
  return plan;
}

}  // namespace tvm_hetero
