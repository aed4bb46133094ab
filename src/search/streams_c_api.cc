/*!
 * \file search/streams_c_api.cc
 * \brief The C interface of tvm_hetero/streams.h: what is given is looked at before it is used.
 */
#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "search/streams.h"

namespace tvm_hetero::search {
namespace {

bool Valid(const TvmHeteroStreamsProblem& p) {
  if (p.tasks < 1 || p.devices < 1 || p.streams < 1 || p.batch < 1 || p.edges < 0) return false;
  if (p.in_begin[0] != 0 || p.in_begin[p.tasks] != p.edges) return false;
  for (int v = 0; v < p.tasks; ++v) {
    if (p.in_begin[v] > p.in_begin[v + 1]) return false;
    for (int e = p.in_begin[v]; e < p.in_begin[v + 1]; ++e) {
      if (p.in_task[e] < 0 || p.in_task[e] >= v) return false;
    }
  }
  if (p.cores < 1 || p.core_begin == nullptr || p.core == nullptr) return false;
  for (int d = 0; d < p.devices; ++d) {
    if (p.core_begin[0] != 0 || p.core_begin[d] >= p.core_begin[d + 1]) return false;
    for (int i = p.core_begin[d]; i < p.core_begin[d + 1]; ++i) {
      if (p.core[i] < 0 || p.core[i] >= p.cores) return false;
    }
  }
  return true;
}

bool Valid(const TvmHeteroStreamsProblem& p, const Division& start) {
  int items = p.tasks * p.streams;
  std::vector<char> seen(items, 0);
  for (int i = 0; i < items; ++i) {
    if (start.counts[i] < 0 || start.counts[i] > p.batch) return false;
    if (start.device[i] < 0 || start.device[i] >= p.devices) return false;
    if (start.sequence[i] < 0 || start.sequence[i] >= items) return false;
    if (seen[start.sequence[i]]++) return false;
  }
  for (int v = 0; v < p.tasks; ++v) {
    int64_t sum = 0;
    for (int s = 0; s < p.streams; ++s) sum += start.counts[v * p.streams + s];
    if (sum != p.batch) return false;
  }
  return true;
}

}  // namespace
}  // namespace tvm_hetero::search

int tvm_hetero_streams_anneal(const TvmHeteroStreamsProblem* problem,
                              TvmHeteroStreamsSearch* search, int32_t* counts, int32_t* device,
                              int32_t* sequence) {
  using namespace tvm_hetero::search;
  try {
    if (!Valid(*problem)) return kSearchBadArgument;
    size_t items = static_cast<size_t>(problem->tasks) * problem->streams;
    Division start;
    start.counts.assign(counts, counts + items);
    start.device.assign(device, device + items);
    start.sequence.assign(sequence, sequence + items);
    if (!Valid(*problem, start)) return kSearchBadArgument;
    const Division best = AnnealStreams(*problem, std::move(start), search);
    std::copy_n(best.counts.begin(), items, counts);
    std::copy_n(best.device.begin(), items, device);
    std::copy_n(best.sequence.begin(), items, sequence);
    return kSearchOk;
  } catch (const std::bad_alloc&) {
    return kSearchNoMemory;
  } catch (...) {
    return kSearchFailed;
  }
}
