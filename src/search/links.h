/*!
 * \file search/links.h
 * \brief What a copy takes: direct links, and the cheapest paths where there are none; and what
 *        executions and copies keep busy.
 *
 * A tensor takes the direct link if there is one, else the cheapest path of links for its bytes;
 * of equal ones that with fewer hops, then that with the smaller device numbers (the rule of
 * tvm_hetero/platform/model.py). Paths are worked out when first asked for, one tree for every (size,
 * source), and shared by all threads.
 */
#ifndef TVM_HETERO_SEARCH_LINKS_H_
#define TVM_HETERO_SEARCH_LINKS_H_

#include <tvm_hetero/search.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "search/rows.h"

namespace tvm_hetero::search {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/*! \brief The cheapest ways from one device for one size. */
struct Tree {
  std::vector<double> seconds;         //!< to every device; infinity where no path leads
  std::vector<std::vector<int>> ways;  //!< devices from the source to the target, both included
};

class Links {
 public:
  explicit Links(const TvmHeteroSearchProblem& given);
  ~Links();

  /*! \brief Time of one hop, s. */
  double HopSeconds(int size, int from, int to) const {
    return KindSeconds(size, Kind(from, to));
  }

  /*! \brief Time with nothing in the way, s; infinity if there is no path. */
  double Delay(int size, int from, int to) const {
    if (from == to) return 0.0;
    return Direct(from, to) ? HopSeconds(size, from, to) : TreeOf(size, from).seconds[to];
  }

  /*! \brief The kind of a direct link, below kinds(); -1 if there is none. */
  int Kind(int from, int to) const { return kind_[Pair(from, to)]; }
  int kinds() const { return kinds_; }
  /*! \brief Time of a hop over a kind of link, s. */
  double KindSeconds(int size, int kind) const {
    return hop_seconds_[static_cast<size_t>(size) * kinds_ + kind];
  }
  bool Direct(int from, int to) const { return kind_[Pair(from, to)] >= 0; }
  /*! \brief The resource of an exclusive link (from the number of devices on), or -1. */
  int Exclusive(int from, int to) const { return exclusive_[Pair(from, to)]; }
  bool Engine(int device) const { return engine_[device] != 0; }
  int devices() const { return devices_; }
  /*! \brief Devices, then exclusive links, then cores that several devices share. */
  int resources() const { return devices_ + exclusive_count_ + shared_count_; }
  /*! \brief What an execution keeps busy: its device, or the shared cores of a team. */
  Span<int> Cores(int device) const { return cores_[device]; }
  /*! \brief Whether some devices share cores. */
  bool teams() const { return shared_count_ > 0; }
  /*! \brief Call visit(resource) once for everything that a hop keeps busy. */
  template <typename Visit>
  void Engaged(int from, int to, Visit visit) const {
    if (!Engine(from)) {
      for (int r : Cores(from)) visit(r);
    }
    if (!Engine(to)) {
      for (int r : Cores(to)) {
        // A core of both ends is busy once.
        const Span<int> other = Cores(from);
        const bool both = teams() && !Engine(from) &&
                          std::find(other.begin(), other.end(), r) != other.end();
        if (!both) visit(r);
      }
    }
    if (Exclusive(from, to) >= 0) visit(Exclusive(from, to));
  }

  /*! \brief Call visit(from, to) for every hop of a route, in order; false if there is none. */
  template <typename Visit>
  bool Route(int size, int from, int to, Visit visit) const {
    if (from == to) return true;
    if (Direct(from, to)) {
      visit(from, to);
      return true;
    }
    const std::vector<int>& way = TreeOf(size, from).ways[to];
    for (size_t i = 1; i < way.size(); ++i) visit(way[i - 1], way[i]);
    return !way.empty();
  }

 private:
  size_t Pair(int from, int to) const { return static_cast<size_t>(from) * devices_ + to; }
  const Tree& TreeOf(int size, int from) const;
  std::unique_ptr<const Tree> Grow(int size, int from) const;

  int devices_;
  int kinds_;
  int exclusive_count_;
  int shared_count_;
  std::vector<int32_t> kind_;
  std::vector<int32_t> exclusive_;
  std::vector<uint8_t> engine_;
  Rows<int> cores_;  //!< resources of a device
  std::vector<double> hop_seconds_;  //!< [size, kind]
  mutable std::unique_ptr<std::atomic<const Tree*>[]> trees_;  //!< [size, source]; null: not yet
  mutable std::vector<std::unique_ptr<const Tree>> grown_;
  mutable std::mutex growing_;
};

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_LINKS_H_
