/*!
 * \file tvm_hetero/safetensors.h
 * \brief Tensors by name in a file: https://github.com/huggingface/safetensors.
 *
 * A file is: the header's length (8 bytes, little-endian), the header (JSON: for each name its
 * "dtype", "shape" and "data_offsets" [begin, end) into what follows), the tensors' bytes. Such a
 * file may come from anywhere, so nothing is allocated or read before it is known that the tensors
 * lie in the file one behind the other, without gap or overlap, each as long as its shape says.
 *
 * Tensors are read into memory of their own and not mapped: kernels want them on boundaries of 64
 * bytes, where most of a file's tensors are not, and a mapped file that someone cuts short while a
 * model runs would kill the process.
 */
#ifndef TVM_HETERO_SAFETENSORS_H_
#define TVM_HETERO_SAFETENSORS_H_

#include <tvm/ffi/container/tensor.h>
#include <tvm_hetero/export.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tvm_hetero {

class PlainFile;

/*! \brief Where a tensor lies in its file. */
struct StoredTensor {
  DLDataType dtype;
  std::vector<int64_t> shape;
  uint64_t begin;  //!< from the start of the file
  uint64_t bytes;
};

/*! \brief An open file. Any number of threads may read at once. */
class TVM_HETERO_API SafetensorsFile {
 public:
  /*! \throws ValueError that names the file, and the tensor, where it is not such a file. */
  explicit SafetensorsFile(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }

  /*!
   * \brief Read one tensor into main memory, or into a CPU's own (device type 1, any number).
   * \throws ValueError where there is no such tensor, or it cannot be read.
   */
  tvm::ffi::Tensor Read(const std::string& name, DLDevice device = {kDLCPU, 0}) const;

 private:
  std::string ReadHeader(uint64_t* data_begin) const;
  void ParseHeader(const std::string& header, uint64_t data_begin);
  void CheckLayout(uint64_t data_begin) const;

  std::unique_ptr<PlainFile> file_;
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_SAFETENSORS_H_
