#include "search/moves.h"

#include <algorithm>

namespace tvm_hetero::search {
namespace {

// Shares of the moves, found by trying on the project's benchmark graphs.
constexpr double kOrder = 0.45;
constexpr double kCluster = 0.15;
constexpr double kSwap = 0.10;
constexpr double kDrag = 0.35;
constexpr double kGrow = 0.75;
constexpr double kNear = 0.7;
constexpr int kMostCluster = 32;
constexpr int kReach = 12;

}  // namespace

Moves::Moves(const Problem& problem) : problem_(&problem), seen_(problem.parts, 0) {
  for (int g = 0; g < problem.allowed.rows(); ++g) {
    if (!problem.members[g].empty() && problem.allowed[g].size() > 1) movable_.push_back(g);
  }
}

bool Moves::Propose(State* state, Random* random) {
  state->Begin();
  double draw = random->Unit();
  if (draw < kOrder || movable_.empty()) {
    bool fetch = !problem_->simple() && problem_->fetches > 0 && random->Chance(0.4);
    return fetch ? ShiftFetch(state, random) : ShiftPart(state, random);
  }
  draw -= kOrder;
  if (draw < kCluster) return PlaceCluster(state, random);
  if (draw < kCluster + kSwap) return Swap(state, random);
  return PlaceOne(state, random);
}

int Moves::OtherDevice(int group, int device, Random* random) {
  Span<int> allowed = problem_->allowed[group];
  int d = allowed[random->Below(allowed.size() - 1)];
  return d == device ? allowed[allowed.size() - 1] : d;
}

bool Moves::TryPlace(int part, int device, State* state) {
  if (state->device(part) == device || !problem_->Allowed(part, device)) return false;
  state->Place(problem_->group[part], device);
  return true;
}

bool Moves::PlaceOne(State* state, Random* random) {
  int g = movable_[random->Below(static_cast<int>(movable_.size()))];
  Span<int> members = problem_->members[g];
  int v = members[random->Below(members.size())];
  Span<int> near = random->Chance(0.5) ? problem_->makers[v] : problem_->followers[v];
  int d = OtherDevice(g, state->device(v), random);
  // Half the time the device of a neighbour: with many devices few others are worth a try.
  if (!near.empty() && random->Chance(0.5)) {
    int there = state->device(near[random->Below(near.size())]);
    if (there != state->device(v) && problem_->Allowed(v, there)) d = there;
  }
  state->Place(g, d);
  for (const Rows<int>* rows : {&problem_->makers, &problem_->followers}) {
    Span<int> row = (*rows)[v];
    if (!row.empty() && random->Chance(kDrag)) TryPlace(row[random->Below(row.size())], d, state);
  }
  return true;
}

/*! \brief Grow a cluster on one device from a random part, and move it as a whole. */
bool Moves::PlaceCluster(State* state, Random* random) {
  int g = movable_[random->Below(static_cast<int>(movable_.size()))];
  int seed = problem_->members[g][0];
  int here = state->device(seed);
  int d = OtherDevice(g, here, random);
  ++clusters_;
  cluster_.assign(1, seed);
  seen_[seed] = clusters_;
  int size = 2;
  while (size < kMostCluster && random->Chance(kGrow)) size += 2;
  for (size_t i = 0; i < cluster_.size(); ++i) {
    for (const Rows<int>* rows : {&problem_->makers, &problem_->followers}) {
      for (int w : (*rows)[cluster_[i]]) {
        if (static_cast<int>(cluster_.size()) >= size) break;
        if (seen_[w] == clusters_ || state->device(w) != here || random->Chance(0.2)) continue;
        if (!problem_->Allowed(w, d)) continue;
        seen_[w] = clusters_;
        cluster_.push_back(w);
      }
    }
  }
  for (int v : cluster_) TryPlace(v, d, state);
  return true;
}

bool Moves::Swap(State* state, Random* random) {
  int count = static_cast<int>(movable_.size());
  int g = movable_[random->Below(count)], h = movable_[random->Below(count)];
  int v = problem_->members[g][0], w = problem_->members[h][0];
  int a = state->device(v), b = state->device(w);
  if (a == b || !problem_->Allowed(v, b) || !problem_->Allowed(w, a)) return false;
  state->Place(g, b);
  state->Place(h, a);
  return true;
}

bool Moves::ShiftPart(State* state, Random* random) {
  return ShiftItem(random->Below(problem_->parts), state, random);
}

/*! \brief Move a fetch that has something to do. */
bool Moves::ShiftFetch(State* state, Random* random) {
  int fetch = random->Below(problem_->fetches);
  int maker = problem_->maker[problem_->fetch_tensor[fetch]];
  if (state->device(maker) == state->device(problem_->fetch_reader[fetch])) return false;
  return ShiftItem(problem_->parts + fetch, state, random);
}

bool Moves::ShiftItem(int item, State* state, Random* random) {
  int low, high;
  state->Range(item, &low, &high);
  int here = state->position(item);
  if (random->Chance(kNear)) {
    low = std::max(low, here - kReach);
    high = std::min(high, here + kReach);
  }
  if (low >= high) return false;
  int target = low + random->Below(high - low);
  if (target >= here) ++target;
  state->Shift(item, target);
  return true;
}

}  // namespace tvm_hetero::search
