/*!
 * \file executor/progress.h
 * \brief How far one worker's part of a batch has come, and whether somebody is at it.
 *
 * All in one word, so that of several workers who want the next step one gets it: the number of the
 * batch, the position of the next step, and whether it is taken. Numbers of batches only grow, and
 * positions do within a batch, so a word never comes again: who has looked at it and finds it
 * unchanged takes what he looked at, though the frame may have served other batches for a while.
 * Positions have 20 bits of it (kMostSteps), so batches must be fewer than 2^43.
 */
#ifndef TVM_HETERO_EXECUTOR_PROGRESS_H_
#define TVM_HETERO_EXECUTOR_PROGRESS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "plan/limits.h"

namespace tvm_hetero {

/*! \brief The progress of one part in one frame. Its own cache line: others belong to others. */
class alignas(64) Progress {
 public:
  struct View {
    uint64_t batch;   //!< 0 before the frame's first
    size_t position;  //!< of the next step; behind the last one when the part is done
    bool taken;       //!< the next step is being run
  };

  View Look() const {
    const uint64_t word = word_.load();
    return View{word >> 21, static_cast<size_t>(word >> 1 & (kMostSteps - 1)), (word & 1) != 0};
  }

  /*! \brief Take the next step; false if it is not free any more. */
  bool Take(uint64_t batch, size_t position) {
    uint64_t free = Word(batch, position);
    return word_.compare_exchange_strong(free, free | 1);
  }

  /*! \brief Nobody is at the part, whose next step is at `position`; for who has taken it. */
  void Put(uint64_t batch, size_t position) { word_.store(Word(batch, position)); }

 private:
  static uint64_t Word(uint64_t batch, size_t position) {
    return batch << 21 | static_cast<uint64_t>(position) << 1;
  }

  std::atomic<uint64_t> word_{0};
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_PROGRESS_H_
