// From the JSON document to a Plan: one function for each kind of row.
#include <tvm/ffi/error.h>
#include <tvm_hetero/plan.h>

#include <algorithm>
#include <limits>

#include "plan/parse_type.h"
#include "support/json_object.h"
#include "support/parse_json.h"
#include "support/printable_errors.h"

namespace tvm_hetero {
namespace {

constexpr const char* kFormat = "tvm-hetero/plan/2";

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
  if (row.Has("memory")) {
    device.memory = row.Int("memory");
    if (*device.memory < 0) {
      row.Fail("memory", "is " + std::to_string(*device.memory) + ", expected bytes from 0 on");
    }
  }
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
  if (row.Has("alike")) worker.alike = Index(row, "alike");
  if (row.Has("threads")) worker.threads = row.Ints("threads");
  row.Finish();
  return worker;
}

SlotPlan ParseSlot(JsonObject row) {
  SlotPlan slot{row.String("name"), Index(row, "device"), std::nullopt};
  if (row.Has("shape") || row.Has("dtype")) {  // both or none
    slot.type = TensorPlan{row.Int64s("shape"), ParseType(row)};
  }
  row.Finish();
  return slot;
}

InputPlan ParseInput(JsonObject row) {
  InputPlan input;
  input.name = row.String("name");
  input.slot = Index(row, "slot");
  input.shape = row.Int64s("shape");
  input.dtype = ParseType(row);
  input.is_state = row.Has("state") && row.Bool("state");
  if (row.Has("range")) {  // for who makes inputs up
    std::vector<int64_t> range = row.Int64s("range");
    if (range.size() != 2 || range[0] > range[1]) {
      row.Fail("range", "is not the least and the largest number that the input may be");
    }
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
  OutputPlan output{row.String("name"), Index(row, "slot")};
  if (row.Has("shape")) output.shape = row.Int64s("shape");
  if (row.Has("length")) {
    std::vector<int64_t> length = row.Int64s("length");
    constexpr int64_t most = std::numeric_limits<int>::max();
    if (length.size() != 2 || std::any_of(length.begin(), length.end(),
                                          [](int64_t n) { return n < 0 || n > most; })) {
      row.Fail("length", "is not the slot of a length and the axis that is so long");
    }
    output.length = LengthPlan{static_cast<int>(length[0]), static_cast<int>(length[1])};
  }
  row.Finish();
  return output;
}

ArgPlan ParseArg(JsonObject row) {
  ArgPlan arg{};
  const bool in = row.Has("in"), out = row.Has("out"), scratch = row.Has("scratch");
  if (in + out + scratch != 1) {
    row.Fail(in ? "in" : "scratch", "is one of several or none, expected exactly one of \"in\", "
                                    "\"out\" and \"scratch\"");
  }
  arg.kind = in ? ArgKind::kIn : out ? ArgKind::kOut : ArgKind::kScratch;
  arg.where = row.Int(in ? "in" : out ? "out" : "scratch");
  arg.type.shape = row.Int64s("shape");
  arg.type.dtype = ParseType(row);
  row.Finish();
  return arg;
}

CallPlan ParseKernelCall(JsonObject row) {
  CallPlan call;
  call.kernel = row.String("kernel");
  call.task = row.String("task");
  for (const JsonObject& arg : row.Objects("args")) call.args.push_back(ParseArg(arg));
  call.written = Index(row, "written");
  row.Finish();
  return call;
}

StepKind ParseKind(JsonObject& row) {
  std::string kind = row.String("kind");
  if (kind == "kernels") return StepKind::kKernels;
  if (kind == "call") return StepKind::kCall;
  if (kind == "copy") return StepKind::kCopy;
  row.Fail("kind", "is \"" + kind + "\", expected \"kernels\", \"call\" or \"copy\"");
}

StepPlan ParseStep(JsonObject row) {
  StepPlan step;
  step.kind = ParseKind(row);
  step.name = row.String("name");
  step.worker = Index(row, "worker");
  step.ins = row.Ints("ins");
  step.outs = row.Ints("outs");
  switch (step.kind) {
    case StepKind::kKernels:
      step.scratch = row.Int("scratch");
      for (const JsonObject& call : row.Objects("calls")) {
        step.calls.push_back(ParseKernelCall(call));
      }
      if (row.Has("joined")) {  // for people: tasks of which nothing is left to do
        for (JsonObject& joined : row.Objects("joined")) {
          joined.String("task");
          joined.Finish();
        }
      }
      break;
    case StepKind::kCall:
      step.function = row.String("function");
      break;
    case StepKind::kCopy:
      step.to_device = Index(row, "to_device");
      break;
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

Plan ParseChecked(const std::string& json) {
  ffi::Any value = ParseJson(json, "plan");

  JsonObject document(value, "");
  document.RequireFormat(kFormat);
  Plan plan;
  plan.batch = document.Int("batch");
  if (plan.batch < 1) {
    document.Fail("batch", "is " + std::to_string(plan.batch) + ", expected 1 or more");
  }
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

}  // namespace

Plan ParsePlan(const std::string& json) {
  return WithPrintableErrors([&] { return ParseChecked(json); });
}

}  // namespace tvm_hetero
