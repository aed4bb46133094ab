#include "executor/core_watch.h"

namespace tvm_hetero {

void CoreWatch::LookAtCore() {
  const PinnedThread::Reading now = other_->Read();
  const bool has_seen = since_.now_s > 0.0;
  if (has_seen && now.now_s - since_.now_s < std::chrono::duration<double>(kPatience).count()) return;
  const bool is_off = has_seen && other_->LacksCore(since_);
  since_ = now;
  if (!is_off) return;
  Reset();
  self_->Exchange(other_);
}

}  // namespace tvm_hetero
