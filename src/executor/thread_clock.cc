#include "executor/thread_clock.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>

namespace tvm_hetero {
namespace {

constexpr double kNotTold = std::numeric_limits<double>::quiet_NaN();

}  // namespace

ThreadClock::ThreadClock() : file_(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}

ThreadClock::~ThreadClock() {
  if (file_ >= 0) close(file_);
}

ThreadTimes ThreadClock::Read() const {
  timespec now{};
  const bool is_known = clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0;
  const double on_core = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  return {is_known ? on_core : kNotTold, ReadQueue()};
}

/*! \brief The second of three numbers: time on a core (ns, as of the last tick), in the queue, turns. */
double ThreadClock::ReadQueue() const {
  char text[96];
  const ssize_t length = file_ < 0 ? -1 : pread(file_, text, sizeof(text) - 1, 0);
  if (length <= 0) return kNotTold;
  text[length] = '\0';
  char* end = text;
  std::strtoull(text, &end, 10);
  const char* second = end;
  const unsigned long long queued = std::strtoull(second, &end, 10);
  return end == second ? kNotTold : 1e-9 * static_cast<double>(queued);
}

}  // namespace tvm_hetero
