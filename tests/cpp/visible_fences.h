/*!
 * \file visible_fences.h
 * \brief Compiled into the program for ThreadSanitizer before everything else.
 *
 * tvm-ffi lets go of a reference with a release, and whoever finds that it was the last one (to free
 * the object, or in BufferPool to use the memory again) follows with an acquire fence.
 * ThreadSanitizer does not know fences and would report each of these as a race. So here the counts
 * themselves, and nothing else, are given the orders that the fences give them.
 */
#ifndef TVM_HETERO_TESTS_VISIBLE_FENCES_H_
#define TVM_HETERO_TESTS_VISIBLE_FENCES_H_

#include <atomic>
#include <memory>
#include <string>

#undef __ATOMIC_RELAXED
#undef __ATOMIC_RELEASE
#define __ATOMIC_RELAXED 2  // acquire
#define __ATOMIC_RELEASE 4  // acquire and release
#include <tvm/ffi/object.h>
#undef __ATOMIC_RELAXED
#undef __ATOMIC_RELEASE
#define __ATOMIC_RELAXED 0  // as GCC has them
#define __ATOMIC_RELEASE 3

#endif  // TVM_HETERO_TESTS_VISIBLE_FENCES_H_
