/*!
 * \file tvm_hetero/artifact.h
 * \brief What `tvm-hetero partition` has written, read without Python.
 *
 *   net.hetero/manifest.json         the format, the variants, and the SHA-256 of all other files
 *   net.hetero/problem.json          the platform, with what each device was compiled for
 *   net.hetero/kernels.json          what each kernel takes: calls of the plan are held against it
 *   net.hetero/<variant>/plan.json   a plan (tvm_hetero/plan.h)
 *   net.hetero/<device>.so           kernels of a device, for all variants
 *   net.hetero/weights.safetensors   the plan's constants
 *
 * Before anything is loaded, each file's SHA-256 is compared with the manifest's, and kernels are
 * refused that need more of the processor than it can do. That finds damage, not malice: libraries
 * are code, and who changes one can change the manifest. Load only artifacts that you trust.
 */
#ifndef TVM_HETERO_ARTIFACT_H_
#define TVM_HETERO_ARTIFACT_H_

#include <tvm_hetero/executor.h>
#include <tvm_hetero/export.h>
#include <tvm_hetero/plan.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tvm_hetero {

/*! \brief One variant of an artifact: its plan, and where the rest is. */
struct TVM_HETERO_API Artifact {
  std::string folder;
  std::string variant;
  Plan plan;
  std::vector<std::string> libraries;  //!< path for each worker; empty for copy engines
  std::string weights;                 //!< path
  std::map<std::string, std::string> files;  //!< SHA-256 of each, by its name in the folder
  std::map<std::string, std::string> mcpus;  //!< what a worker's kernels were compiled for
};

/*!
 * \brief Read the plan of a variant; the manifest's default if `variant` is empty.
 * \throws ValueError that names the file and says what is expected, or that it was changed.
 */
TVM_HETERO_API Artifact ReadArtifact(const std::string& folder, const std::string& variant = "");

/*!
 * \brief Start an executor with all its kernels and weights, ready for inputs.
 *
 * TVM's runtime must be in the process: link the program with libtvm_runtime.so, and for a plan with
 * a GPU libtvm_runtime_cuda.so, or dlopen them with RTLD_GLOBAL before.
 *
 * \throws RuntimeError where a device, a core or a feature of the processor is not there;
 *         ValueError where a library or the weights are missing or changed.
 */
TVM_HETERO_API std::unique_ptr<Executor> MakeExecutor(const Artifact& artifact);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_ARTIFACT_H_
