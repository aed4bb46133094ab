/*!
 * \file memory/page_cache.h
 * \brief Blocks of pages that were given back, kept for who asks for as many bytes next.
 *
 * Plans of a model that take over from each other have mostly the same tensors. Fresh pages would be
 * cleared, one fault each, while the first requests of the new plan wait. No more is kept than is in
 * use: where an executor ends, what it leaves goes back to the system as the next one shrinks, and
 * with the last one all of it.
 */
#ifndef TVM_HETERO_MEMORY_PAGE_CACHE_H_
#define TVM_HETERO_MEMORY_PAGE_CACHE_H_

#include <cstddef>

namespace tvm_hetero {

/*! \brief A kept block of exactly so many bytes, which is in use from now on; null if none is. */
void* TakePages(size_t bytes) noexcept;

/*! \brief So many bytes were mapped and are in use. */
void NotePages(size_t bytes) noexcept;

/*! \brief A block is in use no more: keep it, or give it back to the system. */
void GivePages(void* data, size_t bytes) noexcept;

}  // namespace tvm_hetero

#endif  // TVM_HETERO_MEMORY_PAGE_CACHE_H_
