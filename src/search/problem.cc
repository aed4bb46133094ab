#include "search/problem.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace tvm_hetero::search {
namespace {

using Pairs = std::vector<std::pair<int, int>>;

// Above this many steps the tails are worked out without devices, which takes no time at all.
constexpr double kMostTailSteps = 3e7;

void Require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

void RequireBelow(const int32_t* numbers, size_t count, int least, int end, const char* what) {
  for (size_t i = 0; i < count; ++i) Require(least <= numbers[i] && numbers[i] < end, what);
}

void RequireNoLess(const double* numbers, size_t count, const char* what) {
  // A NaN fails this too.
  for (size_t i = 0; i < count; ++i) Require(numbers[i] >= 0, what);
}

void RequireBytes(const int64_t* numbers, size_t count, int64_t least, const char* what) {
  // All sums of bytes stay below 2^62.
  const int64_t most = (int64_t{1} << 62) / static_cast<int64_t>(count + 1);
  for (size_t i = 0; i < count; ++i) Require(least <= numbers[i] && numbers[i] <= most, what);
}

void RequireRows(const int32_t* begin, int rows, const char* what) {
  Require(begin[0] == 0, what);
  for (int i = 0; i < rows; ++i) Require(begin[i] <= begin[i + 1], what);
}

const TvmHeteroSearchProblem& Checked(const TvmHeteroSearchProblem& p) {
  Require(p.parts > 0 && p.devices > 0 && p.tasks > 0 && p.groups > 0, "empty problem");
  Require(p.tensors >= 0 && p.sizes >= 0 && p.links >= 0 && p.exclusive >= 0 && p.shared >= 0,
          "a count below 0");
  const size_t parts = p.parts, devices = p.devices, tensors = p.tensors;
  RequireNoLess(p.seconds, parts * devices, "seconds below 0");
  RequireBelow(p.task, parts, 0, p.tasks, "a task out of range");
  RequireBytes(p.weights, parts, 0, "weights out of range");
  RequireBytes(p.unread, parts, 0, "unread bytes out of range");
  RequireBelow(p.group, parts, 0, p.groups, "a group out of range");
  RequireRows(p.allowed_begin, p.groups, "allowed_begin does not rise");
  RequireBelow(p.allowed, p.allowed_begin[p.groups], 0, p.devices, "a device out of range");
  RequireBelow(p.maker, tensors, 0, p.parts, "a maker out of range");
  RequireBelow(p.size, tensors, 0, p.sizes, "a size out of range");
  RequireRows(p.reader_begin, p.tensors, "reader_begin does not rise");
  RequireBelow(p.readers, p.reader_begin[p.tensors], 0, p.parts, "a reader out of range");
  RequireBytes(p.size_bytes, p.sizes, 0, "sizes out of range");
  for (size_t t = 0; t < tensors; ++t) {
    Require(p.size_bytes[p.size[t]] <= (int64_t{1} << 62) / (p.tensors + 1), "sizes too large");
  }
  RequireBelow(p.link, devices * devices, -1, p.links, "a link out of range");
  RequireNoLess(p.latency, p.links, "a latency below 0");
  for (int i = 0; i < p.links; ++i) Require(p.bandwidth[i] > 0, "a bandwidth of 0");
  RequireBelow(p.exclusive_link, devices * devices, -1, p.exclusive, "a resource out of range");
  if (p.shared > 0) {
    Require(p.core_begin != nullptr && p.cores != nullptr, "shared cores without a list");
    RequireRows(p.core_begin, p.devices, "core_begin does not rise");
    RequireBelow(p.cores, p.core_begin[p.devices], 0, p.shared, "a core out of range");
  }
  RequireBytes(p.capacity, devices, -1, "capacities out of range");
  for (size_t d = 0; p.memory_of != nullptr && d < devices; ++d) {
    RequireBelow(p.memory_of + d, 1, 0, p.devices, "a memory out of range");
    const int32_t first = p.memory_of[d];
    Require(p.memory_of[first] == first && p.capacity[first] == p.capacity[d],
            "devices of one memory that do not agree on it");
  }
  Require(kLatency <= p.kind && p.kind <= kCost, "an unknown objective");
  Require(p.latency_limit >= 0, "a latency limit below 0");
  RequireNoLess(p.watts, devices, "watts below 0");
  RequireNoLess(p.idle_watts, devices, "idle watts below 0");
  RequireNoLess(p.price, devices, "a price below 0");
  return p;
}

template <typename T>
std::vector<T> Copied(const T* values, size_t count) {
  return std::vector<T>(values, values + count);
}

/*! \brief Of each device the one that names its memory. */
std::vector<int> Memories(const TvmHeteroSearchProblem& given) {
  if (given.memory_of != nullptr) return Copied(given.memory_of, given.devices);
  std::vector<int> own(given.devices);
  std::iota(own.begin(), own.end(), 0);
  return own;
}

Rows<int> Distinct(int rows, Pairs pairs) {
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  return Rows<int>(rows, pairs);
}

}  // namespace

Problem::Problem(const TvmHeteroSearchProblem& given)
    : parts(Checked(given).parts),
      devices(given.devices),
      tensors(given.tensors),
      tasks(given.tasks),
      fetches(given.reader_begin[given.tensors]),
      kind(given.kind),
      acyclic(given.acyclic != 0),
      latency_limit(given.latency_limit),
      links(given),
      cells(static_cast<size_t>(parts) * devices),
      task(Copied(given.task, parts)),
      weights(Copied(given.weights, parts)),
      unread(Copied(given.unread, parts)),
      capacity(Copied(given.capacity, devices)),
      memory_of(Memories(given)),
      size_bytes(Copied(given.size_bytes, given.sizes)),
      staged(Copied(given.staged, parts)),
      maker(Copied(given.maker, tensors)),
      size(Copied(given.size, tensors)),
      group(Copied(given.group, parts)),
      rates{Copied(given.watts, devices), Copied(given.idle_watts, devices),
            Copied(given.price, devices)} {
  for (size_t i = 0; i < cells.size(); ++i) cells[i] = {given.seconds[i], 0.0};
  ReadTensors(given);
  ReadGroups(given);
  SortTopologically();
  FindContention();
  ComputeTails();
}

void Problem::ReadTensors(const TvmHeteroSearchProblem& given) {
  Pairs reads, makes, before, after;
  std::vector<std::pair<int, Input>> takes;
  for (int t = 0; t < tensors; ++t) {
    first_fetch.push_back(given.reader_begin[t]);
    makes.emplace_back(maker[t], t);
    for (int fetch = given.reader_begin[t]; fetch < given.reader_begin[t + 1]; ++fetch) {
      int reader = given.readers[fetch];
      reads.emplace_back(t, reader);
      takes.push_back({reader, {fetch, t, maker[t], size[t]}});
      before.emplace_back(reader, maker[t]);
      after.emplace_back(maker[t], reader);
      fetch_tensor.push_back(t);
      fetch_reader.push_back(reader);
    }
  }
  readers = Rows<int>(tensors, reads);
  inputs = Rows<Input>(parts, takes);
  outputs = Rows<int>(parts, makes);
  makers = Distinct(parts, std::move(before));
  followers = Distinct(parts, std::move(after));
}

void Problem::ReadGroups(const TvmHeteroSearchProblem& given) {
  Pairs in, places;
  for (int v = 0; v < parts; ++v) in.emplace_back(group[v], v);
  for (int g = 0; g < given.groups; ++g) {
    for (int i = given.allowed_begin[g]; i < given.allowed_begin[g + 1]; ++i) {
      places.emplace_back(g, given.allowed[i]);
    }
  }
  members = Rows<int>(given.groups, in);
  allowed = Rows<int>(given.groups, places);
  for (int g = 0; g < given.groups; ++g) {
    Require(!allowed[g].empty(), "a group without devices");
    for (int d : allowed[g]) {
      for (int v : members[g]) Require(Allowed(v, d), "a device that cannot run its group");
    }
  }
}

void Problem::SortTopologically() {
  std::vector<int> waiting(parts);
  for (int v = 0; v < parts; ++v) {
    waiting[v] = makers[v].size();
    if (waiting[v] == 0) topological.push_back(v);
  }
  for (size_t i = 0; i < topological.size(); ++i) {
    for (int w : followers[topological[i]]) {
      if (--waiting[w] == 0) topological.push_back(w);
    }
  }
  Require(topological.size() == static_cast<size_t>(parts), "parts that wait for themselves");
}

void Problem::FindContention() {
  std::vector<bool> used(devices, false);
  for (int g = 0; g < allowed.rows(); ++g) {
    for (int d : allowed[g]) used[d] = true;
  }
  all_direct = true;
  for (int a = 0; a < devices; ++a) {
    for (int b = 0; b < devices; ++b) {
      if (a != b && used[a] && used[b] && !links.Direct(a, b)) all_direct = false;
    }
  }
  // Hops touch devices on which nothing can run only where there are paths of several links.
  contended = false;
  for (int a = 0; a < devices; ++a) {
    bool touched = used[a] || !all_direct;
    if (touched && !links.Engine(a)) contended = true;
    for (int b = 0; b < devices && touched; ++b) {
      if (a != b && links.Exclusive(a, b) >= 0 && (used[b] || !all_direct)) contended = true;
    }
  }
  if (std::count(used.begin(), used.end(), true) < 2) contended = false;
  shares_memory.assign(devices, 0);
  for (int d = 0; d < devices; ++d) {
    if (memory_of[d] != d) shares_memory[d] = shares_memory[memory_of[d]] = 1;
  }
  memory_binds = std::any_of(capacity.begin(), capacity.end(), [](int64_t c) { return c >= 0; });
}

void Problem::ComputeTails() {
  const bool precise = static_cast<double>(fetches) * devices * devices <= kMostTailSteps;
  for (int i = parts - 1; i >= 0; --i) {
    int v = topological[i];
    for (int t : outputs[v]) {
      for (int w : readers[t]) {
        Span<int> places = allowed[group[w]];
        double anywhere = kInfinity;
        for (int k : places) anywhere = std::min(anywhere, cell(w, k).seconds + cell(w, k).tail);
        for (int d : allowed[group[v]]) {
          double least = precise ? kInfinity : anywhere;
          for (int k : precise ? places : Span<int>{nullptr, nullptr}) {
            const Cell& there = cell(w, k);
            least = std::min(least, links.Delay(size[t], d, k) + there.seconds + there.tail);
          }
          double& tail = cells[static_cast<size_t>(v) * devices + d].tail;
          tail = std::max(tail, least);
        }
      }
    }
  }
}

}  // namespace tvm_hetero::search
