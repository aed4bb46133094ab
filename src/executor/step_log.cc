#include "executor/step_log.h"

#include <algorithm>
#include <utility>

#include "memory/device_api.h"

namespace tvm_hetero {

StepLog::StepLog(size_t steps, Clock::time_point epoch)
    : steps_(steps),
      epoch_(std::chrono::duration<double>(epoch.time_since_epoch()).count()) {}

void StepLog::Watch(size_t capacity) {
  std::lock_guard<std::mutex> lock(mutex_);
  capacity_ = capacity;
  while (rows_.size() > capacity_) rows_.pop_front();
  is_on_.store(capacity > 0);
}

void StepLog::Add(double begun, double end, const std::vector<Span>& spans) {
  std::vector<double> row{epoch_ + begun, epoch_ + end};
  row.reserve(kOfRequest + kOfStep * spans.size());
  for (const Span& span : spans) {
    row.insert(row.end(), {epoch_ + span.start, epoch_ + span.end, span.waited,
                           static_cast<double>(span.worker), span.on_core, span.in_queue});
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (capacity_ == 0) return;
  while (rows_.size() >= capacity_) rows_.pop_front();
  rows_.push_back(std::move(row));
}

ffi::Tensor StepLog::Take() {
  std::deque<std::vector<double>> rows;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::swap(rows, rows_);
  }
  const int64_t shape[] = {static_cast<int64_t>(rows.size()),
                           kOfRequest + kOfStep * static_cast<int64_t>(steps_)};
  ffi::Tensor table = Empty(ffi::ShapeView(shape, 2), DLDataType{kDLFloat, 64, 1}, {kDLCPU, 0});
  auto* next = static_cast<double*>(table.data_ptr());
  for (const std::vector<double>& row : rows) next = std::copy(row.begin(), row.end(), next);
  return table;
}

}  // namespace tvm_hetero
