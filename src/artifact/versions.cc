#include "artifact/versions.h"

#include <tvm/ffi/error.h>

namespace tvm_hetero {
namespace {

// setup.py has the same limits (tests/test_packaging.py).
constexpr const char* kTvm = "0.27";
constexpr const char* kTvmFfi = "0.1.14";

/*! \brief Whether a version is a release, or one of its further parts: 0.27 has 0.27.0.post1. */
bool IsOf(const std::string& version, const std::string& release) {
  if (version.compare(0, release.size(), release) != 0) return false;
  return version.size() == release.size() || version[release.size()] == '.' ||
         version[release.size()] == '+';
}

}  // namespace

void CheckVersions(const std::map<std::string, std::string>& versions, const std::string& folder) {
  const std::pair<const char*, const char*> expected[] = {
      {"tvm_hetero", TVM_HETERO_RELEASE}, {"apache-tvm", kTvm}, {"apache-tvm-ffi", kTvmFfi}};
  for (const auto& [package, release] : expected) {
    auto built = versions.find(package);
    if (built != versions.end() && IsOf(built->second, release)) continue;
    const std::string with = built == versions.end() ? "no version at all" : built->second;
    TVM_FFI_THROW(ValueError) << folder << ": was built with " << package << " " << with
                              << ", this runtime is for " << release << "; build it again";
  }
}

}  // namespace tvm_hetero
