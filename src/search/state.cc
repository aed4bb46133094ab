#include "search/state.h"

#include <algorithm>
#include <stdexcept>

namespace tvm_hetero::search {

State::State(const Problem& problem, const int32_t* placement, const int32_t* sequence, int length,
             bool with_fetches)
    : problem_(&problem),
      with_fetches_(with_fetches),
      device_(placement, placement + problem.parts) {
  for (int v = 0; v < problem.parts; ++v) {
    int d = device_[v];
    if (d < 0 || d >= problem.devices || !problem.Allowed(v, d)) {
      throw std::invalid_argument("a part is placed where it cannot run");
    }
    if (d != device_[problem.members[problem.group[v]][0]]) {
      throw std::invalid_argument("a group is placed on several devices");
    }
  }
  ReadSequence(sequence, length);
}

void State::ReadSequence(const int32_t* sequence, int length) {
  const Problem& p = *problem_;
  if (length != p.parts && length != p.items()) {
    throw std::invalid_argument("a sequence has either all parts or all items");
  }
  std::vector<bool> taken(p.items(), false);
  for (int i = 0; i < length; ++i) {
    int item = sequence[i];
    if (item < 0 || item >= length || taken[item]) {
      throw std::invalid_argument("a sequence has every item once");
    }
    taken[item] = true;
    if (item >= p.parts && !with_fetches_) continue;
    if (item < p.parts && with_fetches_ && length == p.parts) {
      for (const Input& input : p.inputs[item]) order_.push_back(p.parts + input.fetch);
    }
    order_.push_back(item);
  }
  position_.assign(p.items(), -1);
  for (size_t i = 0; i < order_.size(); ++i) position_[order_[i]] = static_cast<int>(i);
  for (int fetch = 0; fetch < p.fetches; ++fetch) {
    int maker = position_[p.maker[p.fetch_tensor[fetch]]];
    int reader = position_[p.fetch_reader[fetch]];
    int between = with_fetches_ ? position_[p.parts + fetch] : maker + 1;
    if (!(maker < between && between <= reader)) {
      throw std::invalid_argument("a sequence is in topological order");
    }
  }
}

std::vector<int32_t> State::Sequence() const {
  std::vector<int32_t> items;
  for (int item : order_) {
    if (!with_fetches_) {
      for (const Input& input : problem_->inputs[item]) {
        items.push_back(problem_->parts + input.fetch);
      }
    }
    items.push_back(item);
  }
  return items;
}

void State::Touch(int first, int last) {
  first_ = std::min(first_, first);
  last_ = std::max(last_, last);
}

void State::Begin() {
  first_ = static_cast<int>(order_.size());
  last_ = -1;
  placed_.clear();
  shifted_.clear();
  kept_.clear();
}

void State::Place(int group, int device) {
  const Problem& p = *problem_;
  placed_.push_back({group, device_[p.members[group][0]]});
  for (int v : p.members[group]) {
    device_[v] = device;
    Touch(position_[v], position_[v]);
    if (with_fetches_) {
      for (const Input& input : p.inputs[v]) {
        Touch(position_[p.parts + input.fetch], position_[v]);
      }
    } else {
      // What its readers wait for has changed even if it ends when it did.
      for (int w : p.followers[v]) Touch(position_[w], position_[w]);
    }
  }
}

void State::Range(int item, int* low, int* high) const {
  const Problem& p = *problem_;
  *low = 0;
  *high = static_cast<int>(order_.size()) - 1;
  if (item >= p.parts) {
    int fetch = item - p.parts;
    *low = position_[p.maker[p.fetch_tensor[fetch]]] + 1;
    *high = position_[p.fetch_reader[fetch]] - 1;
    return;
  }
  for (int u : p.makers[item]) *low = std::max(*low, position_[u] + 1);
  for (int w : p.followers[item]) *high = std::min(*high, position_[w] - 1);
}

/*! \brief Whether an item is a fetch that brings something to the part, or away from it. */
bool State::BelongsTo(int item, int part, bool earlier) const {
  if (item < problem_->parts) return false;
  int fetch = item - problem_->parts;
  if (earlier) return problem_->fetch_reader[fetch] == part;
  return problem_->maker[problem_->fetch_tensor[fetch]] == part;
}

void State::Shift(int item, int target) {
  const int here = position_[item];
  const bool earlier = target < here;
  const int from = std::min(here, target), to = std::max(here, target);
  moved_.clear();
  stayed_.clear();
  // Its inputs' fetches come along before it, those of its outputs behind it.
  if (!earlier) moved_.push_back(item);
  for (int i = from; i <= to; ++i) {
    int other = order_[i];
    if (other == item) continue;
    (item < problem_->parts && BelongsTo(other, item, earlier) ? moved_ : stayed_)
        .push_back(other);
  }
  if (earlier) moved_.push_back(item);
  std::vector<int>& head = earlier ? moved_ : stayed_;
  const std::vector<int>& rest = earlier ? stayed_ : moved_;
  head.insert(head.end(), rest.begin(), rest.end());
  shifted_.push_back({from, kept_.size()});
  kept_.insert(kept_.end(), order_.begin() + from, order_.begin() + to + 1);
  Rewrite(from, head);
  Touch(from, to);
}

void State::Rewrite(int from, const std::vector<int>& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    order_[from + i] = items[i];
    position_[items[i]] = from + static_cast<int>(i);
  }
}

void State::Undo() {
  while (!shifted_.empty()) {
    const Shifted& last = shifted_.back();
    for (size_t i = last.kept; i < kept_.size(); ++i) {
      int place = last.from + static_cast<int>(i - last.kept);
      order_[place] = kept_[i];
      position_[kept_[i]] = place;
    }
    kept_.resize(last.kept);
    shifted_.pop_back();
  }
  while (!placed_.empty()) {
    for (int v : problem_->members[placed_.back().group]) device_[v] = placed_.back().device;
    placed_.pop_back();
  }
}

void State::CopyFrom(const State& other) {
  device_ = other.device_;
  order_ = other.order_;
  position_ = other.position_;
  Begin();
}

void State::CopyRange(const State& other, int first, int last) {
  for (int i = first; i <= last; ++i) {
    int item = other.order_[i];
    order_[i] = item;
    position_[item] = i;
    if (item < problem_->parts) device_[item] = other.device_[item];
  }
}

}  // namespace tvm_hetero::search
