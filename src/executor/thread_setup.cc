#include "executor/thread_setup.h"

#include <pthread.h>
#include <sched.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

namespace tvm_hetero {

namespace ffi = tvm::ffi;

void NameThread(const std::string& name) {
#ifdef __linux__
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());  // the kernel keeps 15 letters
#endif
}

#ifdef __linux__
void PinThread(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores) {
    if (core >= CPU_SETSIZE) {
      TVM_FFI_THROW(RuntimeError) << "core " << core << " is beyond the " << CPU_SETSIZE
                                  << " that can be named";
    }
    CPU_SET(core, &set);
  }
  int status = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
  // The kernel ignores cores that are not there as long as one is; that would run a plan on fewer
  // cores than it was made for.
  if (status == 0 && AllowedCores().size() == static_cast<size_t>(CPU_COUNT(&set))) return;
  std::string text;
  for (int core : cores) text += (text.empty() ? "" : ", ") + std::to_string(core);
  TVM_FFI_THROW(RuntimeError) << "this process may not use all of the cores [" << text
                              << "]: name cores that are there";
}

std::vector<int> AllowedCores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (pthread_getaffinity_np(pthread_self(), sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

int CurrentCore() { return sched_getcpu(); }
#else
void PinThread(const std::vector<int>&) {}  // other systems give only hints; go without
std::vector<int> AllowedCores() { return {}; }
int CurrentCore() { return -1; }
#endif

bool ConfigureThreadPool(const std::vector<int>& cores) {
  constexpr int kOneCorePerThread = -2;  // ThreadGroup::kSpecifyOneCorePerThread
  auto configure = ffi::Function::GetGlobal("runtime.config_threadpool");
  if (!configure) return false;
  ffi::Array<ffi::String> names;  // TVM wants the numbers as strings
  for (int core : cores) names.push_back(ffi::String(std::to_string(core)));
  (*configure)(kOneCorePerThread, static_cast<int>(cores.size()), names);
  return true;
}

}  // namespace tvm_hetero
