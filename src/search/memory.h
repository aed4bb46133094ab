/*!
 * \file search/memory.h
 * \brief What lies in the devices' memories while a sequence is decoded (rule 6).
 *
 * Bytes are taken when something that writes them starts, and given back when the last of their
 * uses on the device has ended. What is taken must fit beside everything that has been taken so far
 * and not given back *by that time*: where it does not, it waits for the earliest of the known
 * ends, as far as these go; what then lacks still is an excess, and decoding goes on.
 *
 * Teams of a node see one memory: places, lives and weights are those of the device that names it.
 *
 * An end that something has waited for is a border: nothing that comes later in the sequence may
 * take bytes before it, since what was given back there no longer counts.
 */
#ifndef TVM_HETERO_SEARCH_MEMORY_H_
#define TVM_HETERO_SEARCH_MEMORY_H_

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "search/problem.h"
#include "search/state.h"

namespace tvm_hetero::search {

class Memory {
 public:
  explicit Memory(const Problem& problem);

  /*! \brief Begin a decoding: weights lie there, nothing else. */
  void Reset(const State& state);
  /*! \brief Take bytes on a device at `start` or as soon after it as they fit; returns when. */
  double Take(int device, int64_t bytes, double start);
  /*! \brief A tensor is made on a device from `start` on; its bytes have been taken. */
  void Make(int tensor, int device, double start);
  /*! \brief Take the bytes of a tensor that comes to a device, unless its memory has it; when. */
  double Bring(int tensor, int device, double start);
  /*! \brief One of the known uses of a tensor on a device ends at this time. */
  void Use(int tensor, int device, double end);
  /*! \brief A tensor has been written that nobody uses. */
  void DropUnused(int tensor, int device, double end);
  /*! \brief By how much limits were exceeded, each relative to itself, summed. */
  double Excess() const;

 private:
  struct Life {
    int uses = 0;      //!< that are still to come
    double end = 0.0;  //!< of the latest use so far
    double begin = -1.0;  //!< since when it is there; -1: it is not
  };
  using End = std::pair<double, int64_t>;

  struct Place {
    int64_t limit = -1;  //!< -1: none
    int64_t held = 0;
    int64_t excess = 0;
    double border = 0.0;
    std::priority_queue<End, std::vector<End>, std::greater<End>> ends;
  };

  Life& LifeOf(int tensor, int device) {
    return lives_[static_cast<size_t>(tensor) * problem_->devices + problem_->memory_of[device]];
  }
  void AddWeights(const State& state);
  void Close(int tensor, int device, double end);

  const Problem* problem_;
  std::vector<Place> places_;
  std::vector<Life> lives_;  //!< [tensor, memory]; only those in use are kept right
  std::vector<int> holder_;  //!< [task, memory]: the number of the decoding that counted weights
  int decodings_ = 0;
};

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_MEMORY_H_
