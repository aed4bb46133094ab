#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/module.h>
#include <tvm_hetero/artifact.h>
#include <tvm_hetero/safetensors.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <map>
#include <utility>

#include "device_api.h"
#include "device_name.h"
#include "json_object.h"
#include "parse_json.h"

namespace tvm_hetero {
namespace {

constexpr const char* kArtifactFormat = "tvm-hetero/artifact/2";

/*! \brief A name from a document that is to be the name of a file in the artifact's folder. */
void RequirePlainName(const std::string& document, const std::string& name) {
  if (!name.empty() && name[0] != '.' && name.find('/') == std::string::npos) return;
  TVM_FFI_THROW(ValueError) << document << ": '" << name << "' is no name of a file";
}

/*! \brief The variant to run: the one that is asked for, or the manifest's default. */
std::string ChooseVariant(const std::string& path, std::string variant) {
  JsonObject manifest(ParseJson(ReadText(path), path), "", path);
  std::string format = manifest.String("format");
  if (format != kArtifactFormat) {
    manifest.Fail("format", "is \"" + format + "\", expected \"" + kArtifactFormat +
                                "\": build the artifact again with this version");
  }
  if (variant.empty()) variant = manifest.String("default");
  RequirePlainName(path, variant);
  return variant;
}

void RequireTvmRuntime() {
  if (ffi::Function::GetGlobal("runtime.config_threadpool")) return;
  TVM_FFI_THROW(RuntimeError)
      << "TVM's runtime is not loaded, and kernels need it: link the program with "
         "libtvm_runtime.so, or dlopen it with RTLD_GLOBAL first";
}

/*! \brief Load each library once, however many workers use it. */
void SetLibraries(const Artifact& artifact, Executor* executor) {
  std::map<std::string, ffi::Module> loaded;
  for (size_t worker = 0; worker < artifact.libraries.size(); ++worker) {
    const std::string& path = artifact.libraries[worker];
    if (path.empty()) continue;
    auto found = loaded.find(path);
    if (found == loaded.end()) {
      if (access(path.c_str(), R_OK) != 0) {
        TVM_FFI_THROW(RuntimeError) << path << ": is not there; build the artifact again";
      }
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

}  // namespace

Artifact ReadArtifact(const std::string& folder, const std::string& variant) {
  char resolved[PATH_MAX];  // the loader looks up a name without a slash on its own paths
  if (realpath(folder.c_str(), resolved) == nullptr ||
      access((std::string(resolved) + "/manifest.json").c_str(), R_OK) != 0) {
    TVM_FFI_THROW(ValueError) << folder << ": expected an artifact, a folder with a manifest.json";
  }
  Artifact artifact;
  artifact.folder = resolved;
  artifact.variant = ChooseVariant(artifact.folder + "/manifest.json", variant);
  artifact.plan = ParsePlan(ReadText(artifact.folder + "/" + artifact.variant + "/plan.json"));
  artifact.weights = artifact.folder + "/weights.safetensors";
  for (const WorkerPlan& worker : artifact.plan.workers) {
    bool computes = worker.role == Role::kCompute;
    if (computes) RequirePlainName(artifact.folder, worker.name);
    artifact.libraries.push_back(computes ? artifact.folder + "/" + worker.name + ".so" : "");
  }
  return artifact;
}

std::unique_ptr<Executor> MakeExecutor(const Artifact& artifact) {
  RequireTvmRuntime();
  auto executor = std::make_unique<Executor>(artifact.plan);
  SetLibraries(artifact, executor.get());
  SetWeights(artifact, executor.get());
  return executor;
}

}  // namespace tvm_hetero
