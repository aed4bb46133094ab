#include "support/faults.h"

#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <string>

namespace tvm_hetero {
namespace {

struct FaultPoint {
  const char* name;
  std::atomic<int64_t> passed{0};
  std::atomic<int64_t> nth{0};  //!< 0: not armed
};

std::array<FaultPoint, 5> fault_points{
    {{"kernel"}, {"copy"}, {"allocation"}, {"worker"}, {"workspace"}}};

FaultPoint& FaultPointOf(const ffi::String& kind) {
  for (FaultPoint& point : fault_points) {
    if (std::string(kind) == point.name) return point;
  }
  TVM_FFI_THROW(ValueError) << "there are no faults of kind '" << kind
                            << "', expected kernel, copy, allocation, worker or workspace";
  TVM_FFI_UNREACHABLE();
}

void InjectFault(const ffi::String& kind, int64_t nth) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  if (nth < 0) TVM_FFI_THROW(ValueError) << "fault number " << nth << ", expected 1 or more, or 0";
  FaultPoint& point = FaultPointOf(kind);
  point.nth.store(0);  // nothing is to fail by the old count and the new number
  if (nth > 0) point.passed.store(0);
  point.nth.store(nth);
  bool armed = false;
  for (const FaultPoint& each : fault_points) armed = armed || each.nth.load() > 0;
  details::faults_armed.store(armed);
}

}  // namespace

namespace details {

std::atomic<bool> faults_armed{false};

void PassFaultPoint(FaultKind kind) {
  FaultPoint& point = fault_points[static_cast<size_t>(kind)];
  if (point.nth.load() == 0) return;  // the count stays what it was when the kind was disarmed
  int64_t number = point.passed.fetch_add(1) + 1;
  if (number != point.nth.load()) return;
  TVM_FFI_THROW(RuntimeError) << "injected fault: " << point.name << " " << number;
}

}  // namespace details

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def("tvm_hetero.inject_fault", InjectFault)
      .def("tvm_hetero.fault_count",
           [](const ffi::String& kind) { return FaultPointOf(kind).passed.load(); });
}

}  // namespace tvm_hetero
