/*!
 * \file memory/host_memory.h
 * \brief Main memory for tensors and for kernels: aligned, and megabytes of it in huge pages.
 */
#ifndef TVM_HETERO_MEMORY_HOST_MEMORY_H_
#define TVM_HETERO_MEMORY_HOST_MEMORY_H_

#include <cstddef>

namespace tvm_hetero {

class Pace;

constexpr size_t kHugePage = size_t{2} << 20;

/*!
 * \brief Memory aligned as TVM's kernels expect it (kAlignment, plan.h); null where there is none.
 *
 * From kHugePage bytes on it begins at one and asks for huge pages, of which a kernel that goes
 * through megabytes misses fewer. AlexNet with its 244 MB of weights on one core: 11.4 ms a run
 * instead of 11.8 (medians of seven processes each, in turns); ResNet-50: no difference.
 *
 * From 128 KiB on it is pages of its own (page_cache.h). malloc would keep them in the arena of the
 * thread that asked, and threads of plans that come and go ask in ever other arenas: a switch each
 * 0.1 s between plans of SqueezeNet left 190 MB in them, a quarter of the process.
 */
void* AllocateHost(size_t bytes) noexcept;

/*! \brief Give back what AllocateHost gave for so many bytes. */
void FreeHost(void* data, size_t bytes) noexcept;

/*!
 * \brief While it lives, fresh pages of this thread are had a piece at a time, with rests (pace.h).
 *
 * For memory that is made ready on a core on which others are at work.
 */
class PagesInPieces {
 public:
  explicit PagesInPieces(Pace* pace) noexcept;
  ~PagesInPieces();
  PagesInPieces(const PagesInPieces&) = delete;
  PagesInPieces& operator=(const PagesInPieces&) = delete;

 private:
  Pace* before_;
};

/*! \brief The same from malloc, for who does not know the size when he gives it back. */
void* AllocateUnsized(size_t bytes) noexcept;
void FreeUnsized(void* data) noexcept;

}  // namespace tvm_hetero
#endif  // TVM_HETERO_MEMORY_HOST_MEMORY_H_
