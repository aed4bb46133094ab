#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/module.h>
#include <tvm_hetero/artifact.h>
#include <tvm_hetero/safetensors.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "artifact/kernel_takes.h"
#include "artifact/manifest.h"
#include "artifact/processor.h"
#include "memory/device_api.h"
#include "support/device_name.h"
#include "support/json_object.h"
#include "support/kernel_context.h"
#include "support/parse_json.h"
#include "support/printable_errors.h"

namespace tvm_hetero {
namespace {

constexpr const char* kProblem = "problem.json";
constexpr const char* kKernels = "kernels.json";
constexpr const char* kProblemFormat = "tvm-hetero/problem/1";
constexpr const char* kPlatformFormat = "tvm-hetero/platform/1";

/*! \brief "big.so" of "net.hetero/big.so". */
std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/*! \brief A name from a document that is to be the name of a file in the artifact's folder. */
void RequirePlainName(const std::string& document, const std::string& name) {
  if (!name.empty() && name[0] != '.' && name.find('/') == std::string::npos) return;
  TVM_FFI_THROW(ValueError) << document << ": '" << name << "' is no name of a file";
}

/*! \brief What each device's kernels were compiled for; devices without an `mcpu` are left out. */
std::map<std::string, std::string> CompiledFor(const std::string& problem,
                                               const std::string& path) {
  std::map<std::string, std::string> mcpus;
  JsonObject document(ParseJson(problem, path), "", path);
  document.RequireFormat(kProblemFormat);
  JsonObject platform = document.Object("platform");
  platform.RequireFormat(kPlatformFormat);
  for (JsonObject& device : platform.Objects("devices")) {
    if (!device.Has("target")) continue;
    JsonObject target = device.Object("target");
    bool is_known = target.Has("mcpu") && target.String("kind") == "llvm";
    if (is_known) mcpus.emplace(device.String("name"), target.String("mcpu"));
  }
  return mcpus;
}

/*! \brief Refuse kernels with instructions that this CPU lacks. */
void CheckProcessor(const Artifact& artifact) {
  const std::set<std::string> flags = ProcessorFlags();
  for (const auto& [device, mcpu] : artifact.mcpus) {
    std::string lacking;
    for (const std::string& feature : MissingFeatures(mcpu, flags)) {
      lacking += (lacking.empty() ? "" : ", ") + feature;
    }
    if (lacking.empty()) continue;
    TVM_FFI_THROW(RuntimeError) << "device '" << device << "' was compiled for " << mcpu
                                << "; this CPU lacks " << lacking
                                << "; build it again here, or for an older mcpu";
  }
}

/*! \brief Refuse libraries and weights that are not those of the manifest. */
void CheckFiles(const Artifact& artifact) {
  std::set<std::string> names;
  for (const std::string& library : artifact.libraries) {
    if (!library.empty()) names.insert(NameOf(library));
  }
  if (!artifact.plan.constants.empty()) names.insert(NameOf(artifact.weights));
  for (const std::string& name : names) CheckFile(artifact.folder, name, artifact.files);
}

void RequireTvmRuntime() {
  if (ffi::Function::GetGlobal("runtime.config_threadpool")) return;
  TVM_FFI_THROW(RuntimeError)
      << "TVM's runtime is not loaded, and kernels need it: link the program with "
         "libtvm_runtime.so, or dlopen it with RTLD_GLOBAL first";
}

/*! \brief Load each library once, however many workers use it. */
void SetLibraries(const Artifact& artifact, Executor* executor) {
  RegisterKernelContext();
  std::map<std::string, ffi::Module> loaded;
  for (size_t worker = 0; worker < artifact.libraries.size(); ++worker) {
    const std::string& path = artifact.libraries[worker];
    if (path.empty()) continue;
    auto found = loaded.find(path);
    if (found == loaded.end()) {
      found = loaded.emplace(path, ffi::Module::LoadFromFile(ffi::String(path))).first;
    }
    executor->SetLibrary(static_cast<int64_t>(worker), found->second);
  }
}

/*! \brief The weight that a constant holds: "name@memory" in the plan, "name" in the file. */
std::string WeightName(const std::string& constant) {
  return constant.substr(0, constant.rfind('@'));
}

void SetWeights(const Artifact& artifact, Executor* executor) {
  if (artifact.plan.constants.empty()) return;
  SafetensorsFile file(artifact.weights);
  for (size_t i = 0; i < artifact.plan.constants.size(); ++i) {
    const ConstantPlan& constant = artifact.plan.constants[i];
    DLDevice device = artifact.plan.DeviceOfSlot(constant.slot);
    DLDevice near = IsCpu(device) ? device : DLDevice{kDLCPU, 0};
    ffi::Tensor weight = file.Read(WeightName(constant.name), near);
    if (!IsCpu(device)) {
      ffi::Tensor far = Empty(weight.shape(), weight.dtype(), device);
      CopyTensor(weight, far);
      weight = std::move(far);
    }
    executor->SetConstant(static_cast<int64_t>(i), weight);
  }
}

Artifact ReadFolder(const std::string& folder, const std::string& variant) {
  char resolved[PATH_MAX];  // the loader looks up a name without a slash on its own paths
  if (realpath(folder.c_str(), resolved) == nullptr ||
      access((std::string(resolved) + "/manifest.json").c_str(), R_OK) != 0) {
    TVM_FFI_THROW(ValueError) << folder << ": expected an artifact, a folder with a manifest.json";
  }
  Artifact artifact;
  artifact.folder = resolved;
  const Manifest manifest(artifact.folder);
  artifact.files = manifest.files();
  artifact.variant = variant.empty() ? manifest.default_variant() : variant;
  artifact.plan = ParsePlan(
      ReadChecked(artifact.folder, manifest.PlanOf(artifact.variant), artifact.files));
  CheckTakes(artifact.plan, ReadChecked(artifact.folder, kKernels, artifact.files),
             artifact.folder + "/" + kKernels);
  artifact.weights = artifact.folder + "/weights.safetensors";
  const auto mcpus = CompiledFor(ReadChecked(artifact.folder, kProblem, artifact.files),
                                 artifact.folder + "/" + kProblem);
  for (const WorkerPlan& worker : artifact.plan.workers) {
    bool computes = worker.role == Role::kCompute;
    if (computes) RequirePlainName(artifact.folder, worker.name);
    artifact.libraries.push_back(computes ? artifact.folder + "/" + worker.name + ".so" : "");
    auto mcpu = mcpus.find(worker.name);
    if (computes && mcpu != mcpus.end()) artifact.mcpus.insert(*mcpu);
  }
  return artifact;
}

std::unique_ptr<Executor> StartExecutor(const Artifact& artifact) {
  RequireTvmRuntime();
  CheckProcessor(artifact);
  CheckFiles(artifact);  // before any of them is loaded: libraries are code
  auto executor = std::make_unique<Executor>(artifact.plan);
  SetLibraries(artifact, executor.get());
  SetWeights(artifact, executor.get());
  return executor;
}

}  // namespace

Artifact ReadArtifact(const std::string& folder, const std::string& variant) {
  return WithPrintableErrors([&] { return ReadFolder(folder, variant); });
}

std::unique_ptr<Executor> MakeExecutor(const Artifact& artifact) {
  return WithPrintableErrors([&] { return StartExecutor(artifact); });
}

}  // namespace tvm_hetero
