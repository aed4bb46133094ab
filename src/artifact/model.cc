#include <tvm/ffi/error.h>
#include <tvm_hetero/model.h>

#include <map>
#include <utility>

#include "memory/device_api.h"
#include "support/device_name.h"
#include "support/printable_errors.h"

namespace tvm_hetero {
namespace {

/*! \brief Names of a plan's rows without the element, in order: "x" of "x#0", "x#1", ... */
template <typename Row>
std::vector<std::string> PlainNames(const std::vector<Row>& rows, int64_t batch) {
  std::vector<std::string> names;
  for (const Row& row : rows) {
    size_t mark = row.name.rfind('#');
    bool first = mark != std::string::npos && row.name.substr(mark) == "#0";
    if (batch == 1) names.push_back(row.name);
    if (batch > 1 && first) names.push_back(row.name.substr(0, mark));
  }
  return names;
}

/*! \brief For each name, the positions of its elements. */
template <typename Row>
std::vector<std::vector<size_t>> ElementRows(const std::vector<Row>& rows, int64_t batch,
                                             const std::vector<std::string>& names) {
  std::map<std::string, size_t> positions;
  for (size_t i = 0; i < rows.size(); ++i) positions.emplace(rows[i].name, i);
  std::vector<std::vector<size_t>> found;
  for (const std::string& name : names) {
    found.emplace_back();
    for (int64_t element = 0; element < batch; ++element) {
      auto row = positions.find(batch == 1 ? name : name + "#" + std::to_string(element));
      if (row == positions.end()) {
        TVM_FFI_THROW(ValueError) << "plan: '" << name << "' has no element " << element;
      }
      found.back().push_back(row->second);
    }
  }
  if (names.size() * batch != rows.size()) {
    TVM_FFI_THROW(ValueError) << "plan: expected names of inputs and outputs to end with an "
                              << "element from #0 to #" << batch - 1;
  }
  return found;
}

/*! \brief The shape of a batch: with a dimension of its own in front, or in the first one. */
std::vector<int64_t> BatchShape(std::vector<int64_t> shape, int64_t batch, bool stacked) {
  if (stacked || shape.empty()) {
    shape.insert(shape.begin(), batch);
  } else {
    shape[0] *= batch;
  }
  return shape;
}

bool HasShape(const ffi::Tensor& tensor, const std::vector<int64_t>& shape) {
  ffi::ShapeView has = tensor.shape();
  return std::vector<int64_t>(has.begin(), has.end()) == shape;
}

/*! \brief One element of a tensor, as a view. */
ffi::Tensor ElementOf(const ffi::Tensor& tensor, const std::vector<int64_t>& shape,
                      int64_t element) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  int64_t count = shape.empty() ? 1 : strides[0] * shape[0];
  return tensor.as_strided(ffi::ShapeView(shape.data(), shape.size()),
                           ffi::ShapeView(strides.data(), strides.size()), element * count);
}

/*! \brief `tensor` where kernels can take it: itself if it lies well on that device. */
ffi::Tensor PlacedOn(const ffi::Tensor& tensor, DLDevice device) {
  if (SameDevice(tensor.device(), device) && tensor.IsAligned(kAlignment)) return tensor;
  ffi::Tensor placed = Empty(tensor.shape(), tensor.dtype(), device);
  CopyTensor(tensor, placed);
  return placed;
}

}  // namespace

ffi::Tensor EmptyTensor(const TensorPlan& type) {
  ffi::ShapeView shape(type.shape.data(), type.shape.size());
  return Empty(shape, type.dtype, DLDevice{kDLCPU, 0});
}

Model::Model(const std::string& folder, const std::string& variant)
    : artifact_(ReadArtifact(folder, variant)), executor_(MakeExecutor(artifact_)) {
  WithPrintableErrors([&] { NameRows(); });
}

/*! \brief Set which rows of the plan are the elements of each input and output. */
void Model::NameRows() {
  const Plan& plan = artifact_.plan;
  std::vector<std::string> names = PlainNames(plan.inputs, plan.batch);
  input_rows_ = ElementRows(plan.inputs, plan.batch, names);
  for (size_t i = 0; i < names.size(); ++i) {
    const InputPlan& first = plan.inputs[input_rows_[i][0]];
    std::vector<int64_t> shape =
        plan.batch == 1 ? first.shape : BatchShape(first.shape, plan.batch, false);
    inputs_.push_back(InputInfo{names[i], TensorPlan{std::move(shape), first.dtype}});
  }
  outputs_ = PlainNames(plan.outputs, plan.batch);
  output_rows_ = ElementRows(plan.outputs, plan.batch, outputs_);
}

/*! \brief Whether a batch has a dimension of its own; throws where a tensor fits neither way. */
bool Model::IsStacked(const ffi::Tensor& tensor, size_t input) const {
  const InputInfo& info = inputs_[input];
  bool fits = tensor.dtype() == info.type.dtype && tensor.IsContiguous();
  if (fits && HasShape(tensor, info.type.shape)) return false;
  const std::vector<int64_t>& element = artifact_.plan.inputs[input_rows_[input][0]].shape;
  if (fits && batch() > 1 && HasShape(tensor, BatchShape(element, batch(), true))) return true;
  TVM_FFI_THROW(ValueError) << "input '" << info.name << "' is "
                            << TypeName(tensor.dtype(), tensor.shape().data(), tensor.ndim())
                            << (tensor.IsContiguous() ? "" : " (strided)") << ", expected "
                            << TypeName(info.type.dtype, info.type.shape.data(),
                                        info.type.shape.size());
  TVM_FFI_UNREACHABLE();
}

ffi::Array<ffi::Tensor> Model::Run(const ffi::Array<ffi::Tensor>& inputs) {
  return WithPrintableErrors([&] { return RunOnce(inputs); });
}

ffi::Array<ffi::Tensor> Model::RunOnce(const ffi::Array<ffi::Tensor>& inputs) {
  const Plan& plan = artifact_.plan;
  if (inputs.size() != inputs_.size()) {
    TVM_FFI_THROW(ValueError) << "got " << inputs.size() << " inputs, expected " << inputs_.size();
  }
  bool stacked = false;
  std::vector<ffi::Tensor> given(plan.inputs.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    stacked = IsStacked(inputs[i], i) || stacked;
    for (int64_t element = 0; element < plan.batch; ++element) {
      const InputPlan& row = plan.inputs[input_rows_[i][element]];
      ffi::Tensor part = plan.batch == 1 ? inputs[i] : ElementOf(inputs[i], row.shape, element);
      given[input_rows_[i][element]] = PlacedOn(part, plan.DeviceOfSlot(row.slot));
    }
  }
  int64_t id = executor_->Submit(ffi::Array<ffi::Tensor>(given.begin(), given.end()), 0, -1, false);
  executor_->Wait(id, -1);
  ffi::Array<ffi::Tensor> results = executor_->Take(id);
  if (plan.batch == 1) return results;
  ffi::Array<ffi::Tensor> joined;
  for (const std::vector<size_t>& rows : output_rows_) {
    ffi::Array<ffi::Tensor> elements;
    for (size_t row : rows) elements.push_back(results[row]);
    joined.push_back(Join(elements, stacked));
  }
  return joined;
}

/*! \brief The elements of an output, one behind the other in main memory. */
ffi::Tensor Model::Join(const ffi::Array<ffi::Tensor>& elements, bool stacked) const {
  ffi::ShapeView sizes = elements[0].shape();
  std::vector<int64_t> shape(sizes.begin(), sizes.end());
  std::vector<int64_t> all = BatchShape(shape, batch(), stacked);
  ffi::Tensor joined = EmptyTensor(TensorPlan{std::move(all), elements[0].dtype()});
  for (size_t i = 0; i < elements.size(); ++i) {
    CopyTensor(elements[i], ElementOf(joined, shape, static_cast<int64_t>(i)));
  }
  return joined;
}

}  // namespace tvm_hetero
