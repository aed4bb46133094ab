/*!
 * \file tvm_hetero/model.h
 * \brief A built model with the inputs and outputs that its user knows.
 *
 * An executor takes the tensors of each element of a batch by itself, where its plan wants them.
 * Here an input is one tensor in main memory with the elements one behind the other, and so is an
 * output. Elements are not copied where they lie as kernels want them, on boundaries of 64 bytes.
 */
#ifndef TVM_HETERO_MODEL_H_
#define TVM_HETERO_MODEL_H_

#include <tvm_hetero/artifact.h>

#include <memory>
#include <string>
#include <vector>

namespace tvm_hetero {

/*! \brief An input as its user sees it: for a batch of B, B times the elements' first size. */
struct TVM_HETERO_API InputInfo {
  std::string name;
  TensorPlan type;
};

/*! \brief A new tensor in main memory, aligned so that no run has to copy it. */
TVM_HETERO_API tvm::ffi::Tensor EmptyTensor(const TensorPlan& type);

/*! \brief A model that runs; any number of threads may use it at once. */
class TVM_HETERO_API Model {
 public:
  /*! \brief Load an artifact; throws as ReadArtifact and MakeExecutor do. */
  explicit Model(const std::string& folder, const std::string& variant = "");

  const std::string& variant() const { return artifact_.variant; }
  int64_t batch() const { return artifact_.plan.batch; }
  const std::vector<InputInfo>& inputs() const { return inputs_; }
  const std::vector<std::string>& outputs() const { return outputs_; }
  /*! \brief For streams of requests and for what a run has cost. */
  Executor& executor() { return *executor_; }

  /*!
   * \brief Run once.
   * \param inputs In the order of `inputs()`; of a batch, of the type given there or with the batch
   *        as a dimension of its own in front, (B, ...).
   * \return In the order of `outputs()`; of a batch, in the form of the inputs.
   * \throws ValueError where an input does not fit; what the executor throws.
   */
  tvm::ffi::Array<tvm::ffi::Tensor> Run(const tvm::ffi::Array<tvm::ffi::Tensor>& inputs);

 private:
  void NameRows();
  tvm::ffi::Array<tvm::ffi::Tensor> RunOnce(const tvm::ffi::Array<tvm::ffi::Tensor>& inputs);
  bool IsStacked(const tvm::ffi::Tensor& tensor, size_t input) const;
  tvm::ffi::Tensor Join(const tvm::ffi::Array<tvm::ffi::Tensor>& elements, bool stacked) const;

  Artifact artifact_;
  std::unique_ptr<Executor> executor_;
  std::vector<InputInfo> inputs_;
  std::vector<std::string> outputs_;
  // Position in the plan of each input and output, for each element.
  std::vector<std::vector<size_t>> input_rows_, output_rows_;
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_MODEL_H_
