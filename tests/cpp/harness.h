/*!
 * \file harness.h
 * \brief Tests and checks: TEST(Name) { CHECK(condition); }, and a main that runs them in order.
 */
#ifndef TVM_HETERO_TESTS_HARNESS_H_
#define TVM_HETERO_TESTS_HARNESS_H_

#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tvm_hetero::tests {

struct TestCase {
  const char* name;
  std::function<void()> body;
};

inline std::vector<TestCase>& AllTests() {
  static std::vector<TestCase> tests;
  return tests;
}

struct Registered {
  Registered(const char* name, std::function<void()> body) { AllTests().push_back({name, body}); }
};

/*! \brief Thrown by a check; says where it stands. */
struct CheckFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void Check(bool holds, const std::string& what, int line) {
  if (!holds) throw CheckFailed("line " + std::to_string(line) + ": " + what);
}

/*! \brief The text that `body` throws; fails if it does not throw. */
inline std::string Thrown(const std::function<void()>& body) {
  try {
    body();
  } catch (const CheckFailed&) {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  }
  throw CheckFailed("expected an exception");
}

inline bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline void CheckContains(const std::string& text, const std::string& part, int line) {
  Check(Contains(text, part), '"' + text + "\" lacks \"" + part + '"', line);
}

/*! \brief Run the tests whose names contain `filter`. \return How many failed. */
inline int RunTests(const std::string& filter) {
  int failed = 0;
  for (const TestCase& test : AllTests()) {
    if (!Contains(test.name, filter)) continue;
    try {
      test.body();
      std::printf("ok   %s\n", test.name);
    } catch (const std::exception& error) {
      ++failed;
      std::printf("FAIL %s: %s\n", test.name, error.what());
    }
    std::fflush(stdout);
  }
  return failed;
}

}  // namespace tvm_hetero::tests

#define TEST(name)                                                       \
  static void name();                                                    \
  static ::tvm_hetero::tests::Registered registered_##name(#name, name); \
  static void name()

#define CHECK(...) ::tvm_hetero::tests::Check((__VA_ARGS__), #__VA_ARGS__, __LINE__)
#define CHECK_CONTAINS(text, part) ::tvm_hetero::tests::CheckContains(text, part, __LINE__)

#endif  // TVM_HETERO_TESTS_HARNESS_H_
