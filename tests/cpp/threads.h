/*!
 * \file threads.h
 * \brief Threads in tests: what fails in one is thrown where it is joined.
 */
#ifndef TVM_HETERO_TESTS_THREADS_H_
#define TVM_HETERO_TESTS_THREADS_H_

#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace tvm_hetero::tests {

/*!
 * \brief A thread that is joined whatever fails beside it: one that is left ends the whole program,
 *  and nothing says which check it was.
 */
class Background {
 public:
  explicit Background(const std::function<void()>& body)
      : thread_([this, body] {
          try {
            body();
          } catch (...) {
            error_ = std::current_exception();
          }
        }) {}
  ~Background() {
    if (thread_.joinable()) thread_.join();
  }
  /*! \brief Wait for its end; a check that failed in it is thrown here. */
  void Join() {
    thread_.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::exception_ptr error_;
  std::thread thread_;
};

/*! \brief Run `body(number)` in threads of its own; the first failed check is thrown here. */
inline void InThreads(int count, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> errors(count);
  std::vector<std::thread> threads;
  for (int number = 0; number < count; ++number) {
    threads.emplace_back([&, number] {
      try {
        body(number);
      } catch (...) {
        errors[number] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace tvm_hetero::tests

#endif  // TVM_HETERO_TESTS_THREADS_H_
