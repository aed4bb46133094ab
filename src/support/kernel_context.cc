#include "support/kernel_context.h"

#include <dlfcn.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>

#include <map>
#include <mutex>
#include <string>

namespace tvm_hetero {
namespace {

namespace ffi = tvm::ffi;

std::map<std::string, void*>& Offered() {
  static std::map<std::string, void*> offered;
  return offered;
}

void RegisterAll() {
  for (const auto& [symbol, function] : Offered()) {
    if (TVMFFIEnvModRegisterContextSymbol(symbol.c_str(), function) == 0) continue;
    TVM_FFI_THROW(RuntimeError) << "tvm-ffi does not take the symbol " << symbol;
  }
}

}  // namespace

void OfferToKernels(const char* symbol, void* function) { Offered()[symbol] = function; }

void RegisterKernelContext() {
  // tvm-ffi keeps all that was ever registered, in a list without a lock. So not each time: once
  // when TVM has registered its own, which it does as it is loaded, and before that once in vain.
  static std::mutex mutex;
  static bool is_first = true, is_last = false;
  std::lock_guard<std::mutex> lock(mutex);
  if (is_last) return;
  is_last = ffi::Function::GetGlobal("runtime.RuntimeEnabled").has_value();
  if (!is_first && !is_last) return;
  is_first = false;
  RegisterAll();
}

void* FunctionOfTvm(const char* name) {
  if (void* function = dlsym(RTLD_DEFAULT, name)) return function;
  void* runtime = dlopen("libtvm_runtime.so", RTLD_LAZY | RTLD_NOLOAD);  // not for all to see
  return runtime == nullptr ? nullptr : dlsym(runtime, name);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def("tvm_hetero.register_kernel_context",
                                        RegisterKernelContext);
}

}  // namespace tvm_hetero
