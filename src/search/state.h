/*!
 * \file search/state.h
 * \brief What a search changes: where every part runs, and in which order all is decided.
 *
 * Every change can be taken back. Between Begin and Undo or the next Begin a state remembers the
 * range of the sequence, [first, last], outside of which a decoder sees nothing new.
 *
 * The sequence holds the parts alone where copies are in nobody's way, else the fetches too.
 */
#ifndef TVM_HETERO_SEARCH_STATE_H_
#define TVM_HETERO_SEARCH_STATE_H_

#include <cstdint>
#include <vector>

#include "search/problem.h"

namespace tvm_hetero::search {

class State {
 public:
  /*!
   * \brief Begin from a placement [parts] and a sequence of `length` items, all or just the parts.
   * \param with_fetches whether the fetches shall stand in the sequence.
   * Throws std::invalid_argument if placement or sequence are not possible.
   */
  State(const Problem& problem, const int32_t* placement, const int32_t* sequence, int length,
        bool with_fetches);

  int device(int part) const { return device_[part]; }
  const std::vector<int>& placement() const { return device_; }
  const std::vector<int>& order() const { return order_; }
  int position(int item) const { return position_[item]; }
  /*! \brief All items, the fetches where they are or right before their readers. */
  std::vector<int32_t> Sequence() const;

  void Begin();
  /*! \brief Move a group to a device. */
  void Place(int group, int device);
  /*! \brief The positions that an item may have with the other items where they are. */
  void Range(int item, int* low, int* high) const;
  /*!
   * \brief Move an item to a position within its range.
   * Fetches that would end up on the wrong side of their part are taken along.
   */
  void Shift(int item, int target);
  void Undo();

  bool changed() const { return first_ <= last_; }
  int first() const { return first_; }
  int last() const { return last_; }

  /*! \brief Become another state of the same problem. */
  void CopyFrom(const State& other);
  /*! \brief The same, where the two differ only at the positions from first to last. */
  void CopyRange(const State& other, int first, int last);

 private:
  struct Placed {
    int group, device;
  };
  struct Shifted {
    int from;
    size_t kept;  //!< where the old items of [from, ...) start in kept_
  };

  void ReadSequence(const int32_t* sequence, int length);
  bool BelongsTo(int item, int part, bool earlier) const;
  void Rewrite(int from, const std::vector<int>& items);
  void Touch(int first, int last);

  const Problem* problem_;
  bool with_fetches_;
  std::vector<int> device_;
  std::vector<int> order_;
  std::vector<int> position_;
  int first_ = 1, last_ = 0;
  std::vector<Placed> placed_;
  std::vector<Shifted> shifted_;
  std::vector<int> kept_;
  std::vector<int> moved_, stayed_;  //!< memory of Shift
};

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_STATE_H_
