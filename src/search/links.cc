#include "search/links.h"

#include <tuple>
#include <utility>

namespace tvm_hetero::search {
namespace {

/*! \brief Of every device itself, or the cores that it shares. */
Rows<int> CoresOf(const TvmHeteroSearchProblem& given) {
  std::vector<std::pair<int, int>> pairs;
  const int first = given.devices + given.exclusive;
  for (int d = 0; d < given.devices; ++d) {
    const int begin = given.shared > 0 ? given.core_begin[d] : 0;
    const int end = given.shared > 0 ? given.core_begin[d + 1] : 0;
    for (int i = begin; i < end; ++i) pairs.emplace_back(d, first + given.cores[i]);
    if (begin == end) pairs.emplace_back(d, d);
  }
  return Rows<int>(given.devices, pairs);
}

}  // namespace

Links::Links(const TvmHeteroSearchProblem& given)
    : devices_(given.devices),
      kinds_(given.links),
      exclusive_count_(given.exclusive),
      shared_count_(given.shared),
      kind_(given.link, given.link + static_cast<size_t>(devices_) * devices_),
      exclusive_(given.exclusive_link, given.exclusive_link + kind_.size()),
      engine_(given.copy_engine, given.copy_engine + devices_),
      cores_(CoresOf(given)),
      hop_seconds_(static_cast<size_t>(given.sizes) * kinds_),
      trees_(new std::atomic<const Tree*>[static_cast<size_t>(given.sizes) * devices_]()) {
  for (int32_t& resource : exclusive_) {
    if (resource >= 0) resource += devices_;
  }
  for (int size = 0; size < given.sizes; ++size) {
    for (int kind = 0; kind < kinds_; ++kind) {
      hop_seconds_[static_cast<size_t>(size) * kinds_ + kind] =
          given.latency[kind] +
          static_cast<double>(given.size_bytes[size]) / given.bandwidth[kind];
    }
  }
}

Links::~Links() = default;

const Tree& Links::TreeOf(int size, int from) const {
  std::atomic<const Tree*>& place = trees_[static_cast<size_t>(size) * devices_ + from];
  const Tree* tree = place.load(std::memory_order_acquire);
  if (tree != nullptr) return *tree;
  std::lock_guard<std::mutex> lock(growing_);
  tree = place.load(std::memory_order_relaxed);
  if (tree == nullptr) {
    grown_.push_back(Grow(size, from));
    tree = grown_.back().get();
    place.store(tree, std::memory_order_release);
  }
  return *tree;
}

/*! \brief Dijkstra's algorithm on (time, hops, devices on the way), all compared in this order. */
std::unique_ptr<const Tree> Links::Grow(int size, int from) const {
  using Label = std::tuple<double, size_t, std::vector<int>>;
  auto tree = std::make_unique<Tree>();
  tree->seconds.assign(devices_, kInfinity);
  tree->ways.resize(devices_);
  std::vector<Label> best(devices_, Label{kInfinity, 0, {}});
  std::vector<bool> settled(devices_, false);
  best[from] = Label{0.0, 1, {from}};
  for (;;) {
    int here = -1;
    for (int d = 0; d < devices_; ++d) {
      if (settled[d] || std::get<2>(best[d]).empty()) continue;
      if (here < 0 || best[d] < best[here]) here = d;
    }
    if (here < 0) return tree;
    settled[here] = true;
    auto [seconds, nodes, way] = best[here];
    tree->seconds[here] = seconds;
    for (int there = 0; there < devices_; ++there) {
      if (there == here || settled[there] || !Direct(here, there)) continue;
      double later = seconds + HopSeconds(size, here, there);
      if (later > std::get<0>(best[there])) continue;
      std::vector<int> longer = way;
      longer.push_back(there);
      Label label{later, nodes + 1, std::move(longer)};
      if (std::get<2>(best[there]).empty() || label < best[there]) best[there] = std::move(label);
    }
    tree->ways[here] = std::move(way);
  }
}

}  // namespace tvm_hetero::search
