// A clock that goes as fast as the process works, for measurements on a machine that others use too.
//
// Preloaded (LD_PRELOAD), it answers in place of the C library. After `use_processor_clock` has been
// called, wall clocks go on from where they were by the processor time of this process alone, all
// threads together. So whoever keeps a time limit by the clock (Python, HiGHS, CP-SAT, our searches)
// keeps it by the work that it did, as on a machine that has nothing else to do.

#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const long kSecond = 1000000000L;
static volatile int is_used = 0;
static long began_processor, began_monotonic, began_real;

static long Read(clockid_t clock) {
  struct timespec at;
  syscall(SYS_clock_gettime, clock, &at);
  return at.tv_sec * kSecond + at.tv_nsec;
}

static long Now(long began) {
  return began + Read(CLOCK_PROCESS_CPUTIME_ID) - began_processor;
}

void use_processor_clock(void) {
  began_monotonic = Read(CLOCK_MONOTONIC);
  began_real = Read(CLOCK_REALTIME);
  began_processor = Read(CLOCK_PROCESS_CPUTIME_ID);
  is_used = 1;
}

int clock_gettime(clockid_t clock, struct timespec* at) {
  int is_real = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  int is_monotonic = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE ||
                     clock == CLOCK_MONOTONIC_RAW || clock == CLOCK_BOOTTIME;
  if (!is_used || !(is_real || is_monotonic)) return syscall(SYS_clock_gettime, clock, at);
  long now = Now(is_real ? began_real : began_monotonic);
  at->tv_sec = now / kSecond;
  at->tv_nsec = now % kSecond;
  return 0;
}

int gettimeofday(struct timeval* at, void* zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}
