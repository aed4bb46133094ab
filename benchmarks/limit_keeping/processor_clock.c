// A clock that goes as fast as the process works, for measurements on a machine that others use too.
//
// Preloaded (LD_PRELOAD), it answers in place of the C library. After `use_processor_clock` has been
// called, wall clocks go on from where they were by the processor time of this process alone, all
// threads together. So whoever keeps a time limit by the clock (Python, HiGHS, CP-SAT, our searches)
// keeps it by the work that it did, as on a machine that has nothing else to do.
//
// The kernel does not know this clock. Who waits until a moment of it is given that moment of the
// real clock, as many seconds ahead: else the moment has long passed, and threads that wait for
// Python's lock ask again and again without a pause (1 to 4 s of the system's time were seen).

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
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

// The moment of the real clock that is as far ahead as `at` is by ours.
static struct timespec Real(const struct timespec* at) {
  if (!is_used) return *at;
  long behind = Read(CLOCK_MONOTONIC) - Now(began_monotonic);
  long real = at->tv_sec * kSecond + at->tv_nsec + behind;
  return (struct timespec){.tv_sec = real / kSecond, .tv_nsec = real % kSecond};
}

// The C library's own; of several versions the one that programs are linked to today.
static void* Next(const char* name) {
  void* found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
  return found ? found : dlsym(RTLD_NEXT, name);
}

int pthread_cond_timedwait(pthread_cond_t* cond, pthread_mutex_t* mutex,
                           const struct timespec* at) {
  static int (*next)(pthread_cond_t*, pthread_mutex_t*, const struct timespec*);
  if (!next) next = Next("pthread_cond_timedwait");
  struct timespec real = Real(at);
  return next(cond, mutex, &real);
}

int pthread_cond_clockwait(pthread_cond_t* cond, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* at) {
  static int (*next)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
  if (!next) next = Next("pthread_cond_clockwait");
  struct timespec real = Real(at);
  return next(cond, mutex, clock, &real);
}

int sem_timedwait(sem_t* sem, const struct timespec* at) {
  static int (*next)(sem_t*, const struct timespec*);
  if (!next) next = Next("sem_timedwait");
  struct timespec real = Real(at);
  return next(sem, &real);
}

int sem_clockwait(sem_t* sem, clockid_t clock, const struct timespec* at) {
  static int (*next)(sem_t*, clockid_t, const struct timespec*);
  if (!next) next = Next("sem_clockwait");
  struct timespec real = Real(at);
  return next(sem, clock, &real);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec* at, struct timespec* left) {
  static int (*next)(clockid_t, int, const struct timespec*, struct timespec*);
  if (!next) next = Next("clock_nanosleep");
  struct timespec real = flags & TIMER_ABSTIME ? Real(at) : *at;
  return next(clock, flags, &real, left);
}
