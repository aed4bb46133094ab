/*!
 * \file executor/request_sleep.h
 * \brief Sleeping on a condition, with a limit, and with a look for Ctrl-C now and then.
 */
#ifndef TVM_HETERO_EXECUTOR_REQUEST_SLEEP_H_
#define TVM_HETERO_EXECUTOR_REQUEST_SLEEP_H_

#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "executor/request.h"

namespace tvm_hetero {

//! How often a thread that waits looks for Ctrl-C; each look takes Python's lock.
constexpr std::chrono::milliseconds kSignalPeriod{100};

inline TimeLimit Earlier(TimeLimit a, TimeLimit b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

inline bool HasPassed(TimeLimit limit) { return limit && Clock::now() >= *limit; }

/*!
 * \brief Sleep until `ready()`, with the lock held whenever it is called and at the end.
 * \return false if `limit` came first.
 * \throws EnvErrorAlreadySet for Ctrl-C.
 */
template <typename Ready>
bool Sleep(std::unique_lock<std::mutex>* lock, std::condition_variable* changed, TimeLimit limit,
           Ready ready) {
  if (ready()) return true;  // mostly so: no look at the clock then
  auto next_look = Clock::now() + kSignalPeriod;
  while (!ready()) {
    if (HasPassed(limit)) return false;
    changed->wait_until(*lock, *Earlier(limit, next_look));
    if (Clock::now() < next_look) continue;
    // A handler of a signal is any Python code, which may want to close this executor.
    lock->unlock();
    int pending = TVMFFIEnvCheckSignals();
    lock->lock();
    if (pending != 0) throw tvm::ffi::EnvErrorAlreadySet();
    next_look = Clock::now() + kSignalPeriod;
  }
  return true;
}

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_REQUEST_SLEEP_H_
