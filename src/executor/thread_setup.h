/*!
 * \file executor/thread_setup.h
 * \brief How a worker's thread is set up: its name, its cores, TVM's pool.
 */
#ifndef TVM_HETERO_EXECUTOR_THREAD_SETUP_H_
#define TVM_HETERO_EXECUTOR_THREAD_SETUP_H_

#include <string>
#include <vector>

namespace tvm_hetero {

/*! \brief Name the calling thread, for debuggers and `top -H`. */
void NameThread(const std::string& name);

/*! \brief Pin the calling thread; throws RuntimeError where one of the cores is not there. */
void PinThread(const std::vector<int>& cores);

/*! \brief The cores that the calling thread may run on. */
std::vector<int> AllowedCores();

/*! \brief The core that the calling thread is on right now; -1 where the system does not say. */
int CurrentCore();

/*!
 * \brief Give the calling thread a TVM thread pool of its own, on `cores`.
 * \return false if TVM's runtime is not loaded (yet).
 */
bool ConfigureThreadPool(const std::vector<int>& cores);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_THREAD_SETUP_H_
