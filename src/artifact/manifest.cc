#include "artifact/manifest.h"

#include <tvm/ffi/error.h>
#include <tvm_hetero/safetensors.h>
#include <unistd.h>

#include "artifact/versions.h"
#include "support/json_object.h"
#include "support/parse_json.h"
#include "support/plain_file.h"
#include "support/sha256.h"

namespace tvm_hetero {
namespace {

constexpr const char* kArtifactFormat = "tvm-hetero/artifact/2";
constexpr const char* kWeights = "weights.safetensors";
constexpr uint64_t kLargeFile = uint64_t{1} << 31;  // as in tvm_hetero/artifact/manifest.py

/*! \brief What the manifest says of a file that is there. */
const std::string& ExpectedHash(const std::string& folder, const std::string& name,
                                const std::map<std::string, std::string>& files) {
  auto file = files.find(name);
  if (file == files.end()) {
    TVM_FFI_THROW(ValueError) << folder << ": manifest.json does not list file '" << name
                              << "'; build it again";
  }
  if (access((folder + "/" + name).c_str(), R_OK) != 0) {
    TVM_FFI_THROW(ValueError) << folder << ": file '" << name << "' is missing; build it again";
  }
  return file->second;
}

void CheckHash(const std::string& folder, const std::string& name, const std::string& expected,
               const std::string& found) {
  if (found == expected) return;
  TVM_FFI_THROW(ValueError) << folder << ": file '" << name
                            << "' was changed or damaged; build it again";
}

/*!
 * \brief Refuse what no library can be, and weights whose file is not as long as it says.
 *
 * A file with holes may seem to have a terabyte, whose hash takes an hour.
 */
void CheckLargeFile(const std::string& path, const std::string& folder, const std::string& name) {
  if (name == kWeights) {
    SafetensorsFile weights(path);
    return;
  }
  TVM_FFI_THROW(ValueError) << folder << ": file '" << name << "' is larger than " << kLargeFile
                            << " bytes; build it again";
}

}  // namespace

Manifest::Manifest(const std::string& folder) : path_(folder + "/manifest.json") {
  JsonObject manifest(ParseJson(ReadText(path_), path_), "", path_);
  manifest.RequireFormat(kArtifactFormat);
  CheckVersions(manifest.Strings("versions"), folder);
  default_variant_ = manifest.String("default");
  files_ = manifest.Strings("files");
}

std::string Manifest::PlanOf(const std::string& variant) const {
  std::string plan = variant + "/plan.json", known;
  const bool is_inside = variant.find('/') == std::string::npos && variant.rfind('.', 0) != 0;
  if (is_inside && files_.count(plan) != 0) return plan;
  for (const auto& [name, hash] : files_) {
    const size_t slash = name.find('/');
    if (slash == std::string::npos || name.substr(slash) != "/plan.json") continue;
    known += (known.empty() ? "'" : ", '") + name.substr(0, slash) + "'";
  }
  TVM_FFI_THROW(ValueError) << path_ << ": there is no variant '" << variant
                            << "', expected one of " << known;
  TVM_FFI_UNREACHABLE();
}

std::string ReadChecked(const std::string& folder, const std::string& name,
                        const std::map<std::string, std::string>& files) {
  const std::string& expected = ExpectedHash(folder, name, files);
  std::string text = ReadText(folder + "/" + name);
  CheckHash(folder, name, expected, Sha256OfText(text));
  return text;
}

void CheckFile(const std::string& folder, const std::string& name,
               const std::map<std::string, std::string>& files) {
  const std::string& expected = ExpectedHash(folder, name, files);
  const std::string path = folder + "/" + name;
  if (PlainFile(path).size() > kLargeFile) CheckLargeFile(path, folder, name);
  CheckHash(folder, name, expected, Sha256OfFile(path));
}

}  // namespace tvm_hetero
