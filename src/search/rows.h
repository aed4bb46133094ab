/*!
 * \file search/rows.h
 * \brief Many short lists in one block of memory.
 */
#ifndef TVM_HETERO_SEARCH_ROWS_H_
#define TVM_HETERO_SEARCH_ROWS_H_

#include <cstddef>
#include <utility>
#include <vector>

namespace tvm_hetero::search {

/*! \brief A piece of an array. */
template <typename T>
struct Span {
  const T* first;
  const T* last;

  const T* begin() const { return first; }
  const T* end() const { return last; }
  int size() const { return static_cast<int>(last - first); }
  bool empty() const { return first == last; }
  const T& operator[](int i) const { return first[i]; }
};

template <typename T>
class Rows {
 public:
  Rows() : begin_(1, 0) {}

  /*! \brief Distribute (row, value) pairs, each row in the order of the pairs. */
  Rows(int rows, const std::vector<std::pair<int, T>>& pairs) : begin_(rows + 1, 0) {
    for (const auto& pair : pairs) ++begin_[pair.first + 1];
    for (int i = 0; i < rows; ++i) begin_[i + 1] += begin_[i];
    std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
    items_.resize(pairs.size());
    for (const auto& pair : pairs) items_[next[pair.first]++] = pair.second;
  }

  Span<T> operator[](int row) const {
    return {items_.data() + begin_[row], items_.data() + begin_[row + 1]};
  }
  int rows() const { return static_cast<int>(begin_.size()) - 1; }

 private:
  std::vector<size_t> begin_;
  std::vector<T> items_;
};

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_ROWS_H_
