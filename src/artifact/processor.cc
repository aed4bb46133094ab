#include "artifact/processor.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

namespace tvm_hetero {
namespace {

namespace ffi = tvm::ffi;

/*! \brief What code for a CPU needs: all that another one needs, which stands above it, and more. */
struct Level {
  const char* mcpu;
  const char* base;
  const char* features;
};

// Feature levels of the x86-64 psABI, and what LLVM emits unasked for these CPUs.
constexpr Level kLevels[] = {
    {"x86-64-v2", "", "cx16 lahf_lm popcnt pni ssse3 sse4_1 sse4_2"},
    {"x86-64-v3", "x86-64-v2", "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"},
    {"x86-64-v4", "x86-64-v3", "avx512f avx512bw avx512cd avx512dq avx512vl"},
    {"znver4", "x86-64-v4",
     "avx512vbmi avx512_vbmi2 avx512ifma avx512_vnni avx512_bitalg avx512_vpopcntdq avx512_bf16 "
     "gfni vaes vpclmulqdq"},
    {"znver5", "znver4", "avx_vnni avx512_vp2intersect"},
    {"cooperlake", "x86-64-v4", "avx512_vnni avx512_bf16"},
    {"sapphirerapids", "znver4", "avx_vnni avx512_fp16 amx_tile amx_bf16 amx_int8"},
};

std::set<std::string> Words(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), std::istream_iterator<std::string>()};
}

/*! \brief What code for `mcpu` needs; nothing where it is not in the list. */
std::set<std::string> Needed(std::string mcpu) {
  std::set<std::string> needed;
  for (auto level = std::rbegin(kLevels); level != std::rend(kLevels); ++level) {
    if (mcpu != level->mcpu) continue;
    needed.merge(Words(level->features));
    mcpu = level->base;
  }
  return needed;
}

/*!
 * \brief Ask Linux for tile registers, which kernels for `sapphirerapids` use; whether it lets us.
 *
 * As in tvm_hetero/platform/amx_permission.py; what is granted holds for all threads of the process.
 */
bool AskForTiles() {
#if defined(__linux__) && defined(__x86_64__)
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XTILEDATA
  static const bool allowed = syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
  return allowed;
#else
  return false;
#endif
}

/*! \brief The flags but for those of tile registers, where the system does not let us use them. */
std::set<std::string> Allowed(std::set<std::string> flags) {
  const auto of_tiles = [](const std::string& flag) { return flag.rfind("amx_", 0) == 0; };
  if (std::any_of(flags.begin(), flags.end(), of_tiles) && !AskForTiles()) {
    for (auto flag = flags.begin(); flag != flags.end();) {
      flag = of_tiles(*flag) ? flags.erase(flag) : std::next(flag);
    }
  }
  return flags;
}

}  // namespace

std::set<std::string> ProcessorFlags() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) != 0 && line.rfind("Features", 0) != 0) continue;  // x86, Arm
    return Allowed(Words(line.substr(std::min(line.find(':'), line.size() - 1) + 1)));
  }
  return {};
}

std::vector<std::string> MissingFeatures(const std::string& mcpu,
                                         const std::set<std::string>& flags) {
  std::vector<std::string> missing;
  if (flags.empty()) return missing;
  const std::set<std::string> needed = Needed(mcpu);
  std::set_difference(needed.begin(), needed.end(), flags.begin(), flags.end(),
                      std::back_inserter(missing));
  return missing;
}

// For the test that compares this file with Python's.
TVM_FFI_STATIC_INIT_BLOCK() {
  auto as_array = [](const auto& names) {
    ffi::Array<ffi::String> array;
    for (const std::string& name : names) array.push_back(name);
    return array;
  };
  tvm::ffi::reflection::GlobalDef()
      .def("tvm_hetero.processor_flags", [=] { return as_array(ProcessorFlags()); })
      .def("tvm_hetero.missing_features",
           [=](const ffi::String& mcpu, const ffi::Array<ffi::String>& flags) {
             std::set<std::string> known(flags.begin(), flags.end());
             return as_array(MissingFeatures(mcpu, known));
           });
}

}  // namespace tvm_hetero
