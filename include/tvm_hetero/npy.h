/*!
 * \file tvm_hetero/npy.h
 * \brief One array in a file, as numpy.save writes it.
 */
#ifndef TVM_HETERO_NPY_H_
#define TVM_HETERO_NPY_H_

#include <tvm/ffi/container/tensor.h>
#include <tvm_hetero/export.h>

#include <string>

namespace tvm_hetero {

/*!
 * \brief Read a .npy file of numbers in this machine's order of bytes, C-contiguous.
 * \throws ValueError that names the file and says what is expected.
 */
TVM_HETERO_API tvm::ffi::Tensor ReadNpy(const std::string& path);

/*!
 * \brief Write a contiguous tensor of main memory; bfloat16 and float8, which numpy does not know,
 *        are refused.
 */
TVM_HETERO_API void WriteNpy(const std::string& path, const tvm::ffi::Tensor& tensor);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_NPY_H_
