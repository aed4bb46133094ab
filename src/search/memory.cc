#include "search/memory.h"

#include <algorithm>

namespace tvm_hetero::search {

Memory::Memory(const Problem& problem) : problem_(&problem), places_(problem.devices) {
  if (!problem.memory_binds) return;
  lives_.resize(static_cast<size_t>(problem.tensors) * problem.devices);
  holder_.assign(static_cast<size_t>(problem.tasks) * problem.devices, 0);
  for (int d = 0; d < problem.devices; ++d) places_[d].limit = problem.capacity[d];
}

void Memory::Reset(const State& state) {
  const Problem& p = *problem_;
  for (Place& place : places_) {
    place.held = place.excess = 0;
    place.border = 0.0;
    place.ends = {};
  }
  AddWeights(state);
  // First all lives are emptied, then counted: routes of one tensor share devices.
  for (bool count : {false, true}) {
    for (int fetch = 0; fetch < p.fetches; ++fetch) {
      int t = p.fetch_tensor[fetch];
      int home = state.device(p.maker[t]), there = state.device(p.fetch_reader[fetch]);
      auto visit = [&](int device) {
        Life& life = LifeOf(t, device);
        if (count) ++life.uses;
        if (!count) life = Life{};
      };
      visit(there);
      p.links.Route(p.size[t], home, there, [&](int from, int) { visit(from); });
    }
  }
}

void Memory::AddWeights(const State& state) {
  const Problem& p = *problem_;
  ++decodings_;
  for (int v = 0; v < p.parts; ++v) {
    int d = p.memory_of[state.device(v)];
    int& counted = holder_[static_cast<size_t>(p.task[v]) * p.devices + d];
    if (counted == decodings_) continue;
    counted = decodings_;
    places_[d].held += p.weights[v];
  }
  for (Place& place : places_) {
    if (place.limit >= 0) place.excess = std::max<int64_t>(0, place.held - place.limit);
  }
}

double Memory::Take(int device, int64_t bytes, double start) {
  Place& place = places_[problem_->memory_of[device]];
  if (place.limit < 0 || bytes == 0) return start;
  while (place.held + bytes > place.limit && !place.ends.empty()) {
    place.border = std::max(place.border, place.ends.top().first);
    place.held -= place.ends.top().second;
    place.ends.pop();
  }
  place.held += bytes;
  place.excess = std::max(place.excess, place.held - place.limit);
  return std::max(start, place.border);
}

void Memory::Make(int tensor, int device, double start) { LifeOf(tensor, device).begin = start; }

double Memory::Bring(int tensor, int device, double start) {
  Life& life = LifeOf(tensor, device);
  // It was counted from then on: whoever brings it once more must not be earlier.
  if (life.begin >= 0) return std::max(start, life.begin);
  return life.begin = Take(device, problem_->size_bytes[problem_->size[tensor]], start);
}

void Memory::Use(int tensor, int device, double end) {
  Life& life = LifeOf(tensor, device);
  life.end = std::max(life.end, end);
  if (--life.uses == 0) Close(tensor, device, life.end);
}

void Memory::DropUnused(int tensor, int device, double end) {
  if (problem_->readers[tensor].empty()) Close(tensor, device, end);
}

void Memory::Close(int tensor, int device, double end) {
  int64_t bytes = problem_->size_bytes[problem_->size[tensor]];
  Place& place = places_[problem_->memory_of[device]];
  if (place.limit >= 0 && bytes > 0) place.ends.push({end, bytes});
}

double Memory::Excess() const {
  double sum = 0.0;
  for (const Place& place : places_) {
    if (place.excess > 0) {
      sum += static_cast<double>(place.excess) /
             static_cast<double>(std::max<int64_t>(1, place.limit));
    }
  }
  return sum;
}

}  // namespace tvm_hetero::search
