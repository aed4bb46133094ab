// What a worker does in one step: run kernels on buffers of the plan, call a function that returns
// tensors, or copy a tensor to another device.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/error.h>

#include <utility>

#include "executor/worker.h"
#include "support/device_name.h"
#include "support/faults.h"

namespace tvm_hetero {
namespace {

[[noreturn]] void RefuseResult(const ffi::Any& result, size_t outs) {
  TVM_FFI_THROW(TypeError) << "the function returned " << result.GetTypeKey() << ", expected "
                           << (outs == 1 ? "a tensor or an array of 1 tensor"
                                         : "an array of " + std::to_string(outs) + " tensors");
  TVM_FFI_UNREACHABLE();
}

/*! \brief A kernel trusts a slot's type: refuse a result of another size. */
void CheckType(const ffi::TensorObj& tensor, const SlotPlan& slot) {
  if (!slot.type) return;
  bool fits = tensor.dtype == slot.type->dtype && ffi::IsContiguous(tensor) &&
              static_cast<int64_t>(ffi::GetDataSize(tensor)) == slot.type->Bytes();
  if (fits) return;
  TVM_FFI_THROW(ValueError) << "the result for slot '" << slot.name << "' is "
                            << TypeName(tensor.dtype, tensor.shape, tensor.ndim)
                            << ", expected "
                            << TypeName(slot.type->dtype, slot.type->shape.data(),
                                        slot.type->shape.size())
                            << ", contiguous";
}

}  // namespace

void Worker::RunStep() {
  const StepPlan& step = plan_.steps[At(*held_).step];
  Frame* frame = held_->job.frame;
  switch (step.kind) {
    case StepKind::kKernels: {
      LoopBoard* board = state_->boards[step.worker].get();
      const LoopsOfThread loops(board != nullptr ? board : static_cast<LoopRunner*>(team_.get()));
      return RunKernels(step, frame);
    }
    case StepKind::kCall:
      return Call(step, frame);
    case StepKind::kCopy:
      return Copy(step, frame);
  }
}

void Worker::RunKernels(const StepPlan& step, Frame* frame) {
  ins_.clear();
  outs_.clear();
  made_.clear();
  for (int slot : step.ins) ins_.push_back(In(*frame, slot).as<ffi::TensorObj>());
  for (int slot : step.outs) {
    const TensorPlan& type = *plan_.slots[slot].type;
    ffi::ShapeView shape(type.shape.data(), type.shape.size());
    made_.push_back(state_->pools[slot]->Take(shape, type.dtype, plan_.DeviceOfSlot(slot)));
    outs_.push_back(static_cast<const ffi::TensorObj*>(made_.back().GetDLTensorPtr()));
  }
  KernelStep::Context context;
  context.ins = ins_.data();
  context.outs = outs_.data();
  context.scratch = scratch_.defined() ? static_cast<char*>(scratch_.data_ptr()) : nullptr;
  context.skip = &frame->skip;
  context.check_numerics = state_->check_numerics.load(std::memory_order_relaxed);
  Record& record = frame->record;
  const int number = At(*held_).step;
  context.times = record.has_kernel_times
                      ? record.kernel_times.data() + program_.first_call[number]
                      : nullptr;
  parts_[held_->job.part].kernels[held_->position]->Run(context);
  streams_.front().Synchronize();
  for (size_t i = 0; i < made_.size(); ++i) {
    Fill(frame, step.outs[i], ffi::Any(std::move(made_[i])));
  }
  made_.clear();
}

void Worker::Call(const StepPlan& step, Frame* frame) {
  MaybeFail(FaultKind::kKernel);
  arguments_.clear();
  for (int slot : step.ins) arguments_.emplace_back(In(*frame, slot));
  ffi::Any result;
  const ffi::Function& function = parts_[held_->job.part].functions[held_->position];
  function.CallPacked(arguments_.data(), static_cast<int32_t>(arguments_.size()), &result);
  streams_.front().Synchronize();

  size_t outs = step.outs.size();
  if (outs == 0) return;  // called for its effect
  if (result.type_index() == ffi::TypeIndex::kTVMFFITensor) {
    if (outs != 1) RefuseResult(result, outs);
    FillFromCall(frame, step.outs[0], std::move(result));
    return;
  }
  auto tensors = result.as<ffi::Array<ffi::Any>>();
  if (!tensors.has_value()) RefuseResult(result, outs);
  if (tensors->size() != outs) {
    TVM_FFI_THROW(ValueError) << "the function returned " << tensors->size()
                              << " tensors, expected " << outs;
  }
  for (size_t i = 0; i < outs; ++i) FillFromCall(frame, step.outs[i], (*tensors)[i]);
}

void Worker::Copy(const StepPlan& step, Frame* frame) {
  MaybeFail(FaultKind::kCopy);
  const int slot = step.outs[0];
  auto from = In(*frame, step.ins[0]).cast<ffi::Tensor>();
  DLDevice device = plan_.devices[step.to_device].device;
  ffi::Tensor to = state_->pools[slot]->Take(from.shape(), from.dtype(), device);
  CopyTensor(from, to);
  Fill(frame, slot, ffi::Any(std::move(to)));
}

/*! \brief The tensor in a slot that a step reads; constants are the same for all batches. */
const ffi::Any& Worker::In(const Frame& frame, int slot) const {
  return program_.slots[slot].is_constant ? state_->constants[slot] : frame.slots[slot].tensor;
}

void Worker::FillFromCall(Frame* frame, int slot, ffi::Any tensor) {
  if (tensor.type_index() != ffi::TypeIndex::kTVMFFITensor) {
    TVM_FFI_THROW(TypeError) << "the result for slot '" << plan_.slots[slot].name << "' is "
                             << tensor.GetTypeKey() << ", expected a tensor";
  }
  const auto* object = tensor.as<ffi::TensorObj>();
  if (!SameDevice(object->device, plan_.DeviceOfSlot(slot))) {
    TVM_FFI_THROW(ValueError) << "the result for slot '" << plan_.slots[slot].name << "' is on "
                              << DeviceName(object->device) << ", expected "
                              << DeviceName(plan_.DeviceOfSlot(slot));
  }
  CheckType(*object, plan_.slots[slot]);
  Fill(frame, slot, std::move(tensor));
}

void Worker::Fill(Frame* frame, int slot, ffi::Any tensor) {
  const SlotUse& use = program_.slots[slot];
  if (use.readers == 0 && !use.is_output) return;  // not needed: free it now
  frame->slots[slot].readers_left.store(use.readers, std::memory_order_relaxed);
  frame->slots[slot].tensor = std::move(tensor);
}

}  // namespace tvm_hetero
