#include "executor/core_watch.h"

namespace tvm_hetero {
namespace {

double NowSeconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();  // CLOCK_MONOTONIC
  return std::chrono::duration<double>(now).count();
}

constexpr double kPatienceSeconds = std::chrono::duration<double>(LackWatch::kPatience).count();
constexpr double kSleepSeconds = 1e-3;

}  // namespace

bool LackWatch::Lacks(const PinnedThread& thread) noexcept {
  // The clock of another thread takes a lock of its core's: look at our own before.
  const double now_s = NowSeconds();
  if (now_s < not_before_s_ || now_s - since_.now_s < kPatienceSeconds) return false;
  const PinnedThread::Reading now = thread.Read();
  const bool is_off = since_.now_s > 0.0 && PinnedThread::IsOffCore(since_, now);
  const bool lacks = is_off && thread.IsRunnable();
  if (is_off && !lacks) not_before_s_ = now_s + kSleepSeconds;
  const bool is_second = lacks && lacked_;
  since_ = now;
  lacked_ = lacks && !is_second;
  return is_second;
}

}  // namespace tvm_hetero
