// All tests of the executor in C++, or those whose names contain the first argument.
#include <cstdio>

#include "harness.h"

int main(int count, char** words) {
  int failed = tvm_hetero::tests::RunTests(count > 1 ? words[1] : "");
  if (failed > 0) std::printf("%d tests failed\n", failed);
  return failed == 0 ? 0 : 1;
}
