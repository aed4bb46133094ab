/*!
 * \file executor/executor_internal.h
 * \brief What executor.cc (requests) and executor_runs.cc (measuring) share.
 */
#ifndef TVM_HETERO_EXECUTOR_EXECUTOR_INTERNAL_H_
#define TVM_HETERO_EXECUTOR_EXECUTOR_INTERNAL_H_

#include <tvm/ffi/error.h>
#include <tvm_hetero/executor.h>

#include <string>
#include <vector>

namespace tvm_hetero {

/*! \brief Holds the executor for one call that is for one thread at a time. */
class Executor::Exclusive {
 public:
  explicit Exclusive(const Executor* executor) : executor_(executor) {
    executor->RefuseFork();
    if (executor->busy_.exchange(true)) {
      TVM_FFI_THROW(RuntimeError) << "the executor is in use: another thread is in a run. Use "
                                  << "submit, or a lock around set_input, run and get_output";
    }
  }
  ~Exclusive() { executor_->busy_.store(false); }

 private:
  const Executor* executor_;
};

template <typename Row>
const Row& RowAt(const std::vector<Row>& rows, int64_t index, const char* kind) {
  if (index < 0 || static_cast<size_t>(index) >= rows.size()) {
    TVM_FFI_THROW(IndexError) << kind << " " << index << " was asked for, but the plan has "
                              << rows.size() << " (numbered from 0)";
  }
  return rows[index];
}

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_EXECUTOR_INTERNAL_H_
