#include "search/activities.h"

#include <algorithm>

namespace tvm_hetero::search {

bool Activities::Lay(const std::vector<int>& placement) {
  AddExecutions(placement);
  for (int t = 0; t < problem_.tensors; ++t) {
    if (!AddTensor(t, placement)) return false;
  }
  return true;
}

void Activities::AddExecutions(const std::vector<int>& placement) {
  const int n = problem_.parts;
  seconds.resize(n);
  before.assign(n, {});
  resources.resize(n);
  hops.clear();
  stays.clear();
  weights.assign(problem_.devices, 0);
  std::vector<std::pair<int, int>> held;
  for (int v = 0; v < n; ++v) {
    const int d = placement[v];
    seconds[v] = problem_.cell(v, d).seconds;
    const Span<int> cores = problem_.links.Cores(d);
    resources[v].assign(cores.begin(), cores.end());
    if (problem_.capacity[d] < 0) continue;
    // Parts of one task in one memory share its weights.
    const int memory = problem_.memory_of[d];
    const std::pair<int, int> key(problem_.task[v], memory);
    if (std::find(held.begin(), held.end(), key) == held.end()) {
      held.push_back(key);
      weights[memory] += problem_.weights[v];
    }
    if (problem_.unread[v] > 0) stays.push_back({memory, problem_.unread[v], {v}, {}});
  }
}

bool Activities::AddTensor(int tensor, const std::vector<int>& placement) {
  const int maker = problem_.maker[tensor], home = placement[maker];
  const int size = problem_.size[tensor];
  const int64_t bytes = problem_.size_bytes[size];
  const size_t first_hop = hops.size(), first_stay = stays.size();
  if (Stay* here = StayOn(home, bytes, first_stay)) {
    here->openers.push_back(maker);
    here->closers.push_back(maker);
  }
  for (int reader : problem_.readers[tensor]) {
    int last = maker;
    const bool reached = problem_.links.Route(size, home, placement[reader], [&](int a, int b) {
      int hop = -1;
      for (size_t i = first_hop; i < hops.size(); ++i) {
        if (hops[i].from == a && hops[i].to == b) hop = problem_.parts + static_cast<int>(i);
      }
      if (hop < 0) {
        hop = AddHop(tensor, a, b);
        if (Stay* there = StayOn(b, bytes, first_stay)) {
          there->openers.push_back(hop);
          there->closers.push_back(hop);
        }
        if (Stay* here = StayOn(a, bytes, first_stay)) here->closers.push_back(hop);
      }
      Wait(hop, last);
      last = hop;
    });
    if (!reached) return false;
    Wait(reader, last);
    if (Stay* there = StayOn(placement[reader], bytes, first_stay)) {
      there->closers.push_back(reader);
    }
  }
  return true;
}

int Activities::AddHop(int tensor, int from, int to) {
  const Links& links = problem_.links;
  hops.push_back({tensor, from, to});
  seconds.push_back(links.HopSeconds(problem_.size[tensor], from, to));
  before.emplace_back();
  std::vector<int> busy;
  links.Engaged(from, to, [&](int r) { busy.push_back(r); });
  resources.push_back(std::move(busy));
  return static_cast<int>(seconds.size()) - 1;
}

/*! \brief The stay of the tensor whose stays begin at `first`; none where memory never binds. */
Stay* Activities::StayOn(int device, int64_t bytes, size_t first) {
  if (problem_.capacity[device] < 0) return nullptr;
  const int memory = problem_.memory_of[device];
  for (size_t i = first; i < stays.size(); ++i) {
    if (stays[i].memory == memory) return &stays[i];
  }
  stays.push_back({memory, bytes, {}, {}});
  return &stays.back();
}

void Activities::Wait(int activity, int other) {
  std::vector<int>& row = before[activity];
  if (std::find(row.begin(), row.end(), other) == row.end()) row.push_back(other);
}

void Activities::Finish() {
  const int n = count();
  after.assign(n, {});
  std::vector<int> waiting(n);
  order.clear();
  for (int a = 0; a < n; ++a) {
    waiting[a] = static_cast<int>(before[a].size());
    for (int b : before[a]) after[b].push_back(a);
    if (waiting[a] == 0) order.push_back(a);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    for (int b : after[order[i]]) {
      if (--waiting[b] == 0) order.push_back(b);
    }
  }
  tails.assign(n, 0.0);
  loads.assign(problem_.links.resources(), 0.0);
  instant = false;
  for (int i = n - 1; i >= 0; --i) {
    const int a = order[i];
    double rest = 0.0;
    for (int b : after[a]) rest = std::max(rest, tails[b]);
    tails[a] = seconds[a] + rest;
    for (int r : resources[a]) loads[r] += seconds[a];
    if (seconds[a] <= 0) instant = true;
  }
}

bool Activities::EverythingFits() const {
  std::vector<int64_t> total = weights;
  for (const Stay& stay : stays) total[stay.memory] += stay.bytes;
  for (int d = 0; d < problem_.devices; ++d) {
    if (problem_.capacity[d] >= 0 && total[d] > problem_.capacity[d]) return false;
  }
  return true;
}

bool Activities::EachFits() const {
  for (int d = 0; d < problem_.devices; ++d) {
    if (problem_.capacity[d] >= 0 && weights[d] > problem_.capacity[d]) return false;
  }
  // What an activity opens or closes is on its device for as long as it lasts.
  std::vector<std::vector<int64_t>> beside(count());
  for (const Stay& stay : stays) {
    std::vector<int> users = stay.openers;
    users.insert(users.end(), stay.closers.begin(), stay.closers.end());
    std::sort(users.begin(), users.end());
    users.erase(std::unique(users.begin(), users.end()), users.end());
    for (int a : users) {
      beside[a].resize(problem_.devices);
      beside[a][stay.memory] += stay.bytes;
    }
  }
  for (int a = 0; a < count(); ++a) {
    if (seconds[a] <= 0) continue;
    for (size_t d = 0; d < beside[a].size(); ++d) {
      if (problem_.capacity[d] >= 0 && weights[d] + beside[a][d] > problem_.capacity[d]) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace tvm_hetero::search
