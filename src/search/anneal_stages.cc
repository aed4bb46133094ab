/*!
 * \file search/anneal_stages.cc
 * \brief Contiguous stages where only work loads a device: stages of groups, and their order.
 *
 * Where copies keep nothing busy and memory is ample, a plan is a number of a stage for each group,
 * nowhere falling along what is read, and a device for each stage. Within these two no state has a
 * circle of devices, so that none is looked at in vain, and two devices can exchange all that they
 * do, which placements (anneal_loads.cc) hardly ever find. A move is
 *
 *   shift     a group to another stage between what it reads and what reads it
 *   push      the same beyond: what is in the way is taken along
 *   swap      a shift, and one back from there
 *   exchange  the devices of two stages
 *   insert    a device at another place of the order, those between move up; if it does nothing,
 *             with what they do
 *
 * Groups that are in no stage (inputs, outputs) stay where they are. What is minimised: loads.h.
 */
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

#include "search/anneal.h"
#include "search/annealer.h"
#include "search/random.h"

namespace tvm_hetero::search {
namespace {

constexpr Tuning kTuning{1.0, 1e-3, 12};
// Times the heat that placements need: less finds better stages of hundreds of groups, more finds
// the best of tens more often.
constexpr double kHeat = 0.3;
// Shares of the moves; the rest are shifts.
constexpr double kPush = 0.1, kSwap = 0.15, kExchange = 0.05, kInsert = 0.02;
// Of shifts, those to the next stage. Groups that a push takes along, and tries of a swap, at most.
constexpr double kNext = 0.5;
constexpr size_t kMostPushed = 16;
constexpr int kTries = 8;
constexpr double kSmooth = 1e-2, kSmoothLast = 1e-4;
constexpr int kSteps = 200;
constexpr double kMostPower = 600.0;
// Changes of loads after which sums of doubles are made anew.
constexpr int kFresh = 1 << 16;

class StageModel {
 public:
  StageModel(const Problem& problem, const int32_t* placement)
      : problem_(problem),
        devices_(problem.devices),
        stage_(problem.members.rows(), -1),
        seconds_(static_cast<size_t>(problem.members.rows()) * devices_, 0.0),
        terms_(devices_, 0.0) {
    ReadGroups(placement);
    ReadEdges();
    ReadOrder(placement);
    SumLoads();
    best_stage_ = stage_;
    best_device_ = device_;
  }

  Score Start() {
    const Score score = Valued();
    Smooth(kSmooth * score.value);
    return score;
  }

  bool Propose(Random* random) {
    shifts_.clear();
    touched_.clear();
    devices_before_.clear();
    if (movable_.empty()) return false;
    double draw = random->Unit();
    if ((draw -= kExchange) < 0) {
      Exchange(random);
    } else if ((draw -= kInsert) < 0) {
      Insert(random);
    } else if ((draw -= kPush) < 0) {
      const int g = Drawn(random);
      Push(g, random->Below(devices_));
    } else {
      const int g = Drawn(random);
      const int from = stage_[g], to = Target(g, random);
      if (to == from) return false;
      Shift(g, to);
      if (draw < kSwap) ShiftBack(g, to, from, random);
    }
    return !shifts_.empty() || !devices_before_.empty();
  }

  Score Evaluate(double) {
    Refresh();
    return Valued();
  }

  double CostOf(const Score&) const { return reference_ + smooth_ * std::log(sum_); }

  void Cool(double progress) {
    const int step = static_cast<int>(progress * kSteps);
    if (step == step_) return;
    step_ = step;
    Smooth(kSmooth * std::pow(kSmoothLast / kSmooth, progress) * best_value_);
  }

  void Accept() {
    if (changes_ < kFresh) return;
    SumLoads();
    SumTerms();
  }

  void Reject() {
    if (!devices_before_.empty()) device_ = devices_before_;
    for (size_t i = shifts_.size(); i > 0; --i) Put(shifts_[i - 1].first, shifts_[i - 1].second);
    Refresh();
  }

  void Keep() {
    best_stage_ = stage_;
    best_device_ = device_;
    best_value_ = Valued().value;
  }

  Score Return() {
    stage_ = best_stage_;
    device_ = best_device_;
    SumLoads();
    SumTerms();
    return Valued();
  }

  int64_t work() const { return work_; }

  /*! \brief The best placement; groups in no stage are left out. */
  void Write(int32_t* placement) const {
    for (int v = 0; v < problem_.parts; ++v) {
      const int stage = best_stage_[problem_.group[v]];
      if (stage >= 0) placement[v] = best_device_[stage];
    }
  }

 private:
  void ReadGroups(const int32_t* placement) {
    const Problem& p = problem_;
    for (int v = 0; v < p.parts; ++v) {
      const int d = placement[v];
      if (d < 0 || d >= devices_ || !p.Allowed(v, d)) {
        throw std::invalid_argument("a part is placed where it cannot run");
      }
      if (d != placement[p.members[p.group[v]][0]]) {
        throw std::invalid_argument("a group is placed on several devices");
      }
      for (int k = 0; k < devices_; ++k) {
        seconds_[static_cast<size_t>(p.group[v]) * devices_ + k] += p.cell(v, k).seconds;
      }
    }
    fixed_.assign(devices_, 0.0);
    for (int g = 0; g < p.members.rows(); ++g) {
      if (p.members[g].empty()) continue;
      if (p.staged[p.members[g][0]]) {
        movable_.push_back(g);
      } else {
        const int d = placement[p.members[g][0]];
        fixed_[d] += seconds_[static_cast<size_t>(g) * devices_ + d];
      }
    }
  }

  void ReadEdges() {
    const Problem& p = problem_;
    std::vector<std::pair<int, int>> before, after;
    for (int w = 0; w < p.parts; ++w) {
      for (int v : p.makers[w]) {
        if (!p.staged[v] || !p.staged[w] || p.group[v] == p.group[w]) continue;
        before.emplace_back(p.group[w], p.group[v]);
        after.emplace_back(p.group[v], p.group[w]);
      }
    }
    before_ = Rows<int>(p.members.rows(), before);
    after_ = Rows<int>(p.members.rows(), after);
  }

  /*! \brief Devices in an order of the pipeline; those that are not used wherever they come. */
  void ReadOrder(const int32_t* placement) {
    const Problem& p = problem_;
    std::vector<std::vector<int>> feeds(devices_);
    std::vector<int> fed(devices_, 0);
    for (int g : movable_) {
      const int to = placement[p.members[g][0]];
      for (int f : before_[g]) {
        const int from = placement[p.members[f][0]];
        if (from == to) continue;
        feeds[from].push_back(to);
        ++fed[to];
      }
    }
    for (int d = 0; d < devices_; ++d) {
      if (fed[d] == 0) device_.push_back(d);
    }
    for (size_t i = 0; i < device_.size(); ++i) {
      for (int d : feeds[device_[i]]) {
        if (--fed[d] == 0) device_.push_back(d);
      }
    }
    if (device_.size() < static_cast<size_t>(devices_)) {
      throw std::invalid_argument("the start is no pipeline of devices");
    }
    std::vector<int> rank(devices_);
    for (int s = 0; s < devices_; ++s) rank[device_[s]] = s;
    for (int g : movable_) stage_[g] = rank[placement[p.members[g][0]]];
  }

  double* Loads(int stage) { return loads_.data() + static_cast<size_t>(stage) * devices_; }
  double Load(int stage) const {
    const int d = device_[stage];
    return loads_[static_cast<size_t>(stage) * devices_ + d] + fixed_[d];
  }

  /*! \brief loads_[s, d]: what stage s would be for device d; infinity where that cannot do it. */
  void SumLoads() {
    loads_.assign(static_cast<size_t>(devices_) * devices_, 0.0);
    barred_.assign(loads_.size(), 0);
    count_.assign(devices_, 0);
    for (int g : movable_) Add(g, stage_[g], 1);
    changes_ = 0;
  }

  void Add(int group, int stage, int sign) {
    const double* seconds = seconds_.data() + static_cast<size_t>(group) * devices_;
    double* loads = Loads(stage);
    int* barred = barred_.data() + static_cast<size_t>(stage) * devices_;
    for (int d = 0; d < devices_; ++d) {
      if (seconds[d] < kInfinity) {
        loads[d] += sign * seconds[d];
      } else {
        barred[d] += sign;
      }
    }
    count_[stage] += sign;
    ++changes_;
  }

  void Put(int group, int stage) {
    Add(group, stage_[group], -1);
    Add(group, stage, 1);
    stage_[group] = stage;
    ++work_;
  }

  void Shift(int group, int stage) {
    shifts_.emplace_back(group, stage_[group]);
    for (int s : {stage_[group], stage}) {
      if (std::find(touched_.begin(), touched_.end(), s) == touched_.end()) touched_.push_back(s);
    }
    Put(group, stage);
  }

  int Drawn(Random* random) const {
    return movable_[random->Below(static_cast<int>(movable_.size()))];
  }

  int Lowest(int group) const {
    int low = 0;
    for (int f : before_[group]) low = std::max(low, stage_[f]);
    return low;
  }

  int Highest(int group) const {
    int high = devices_ - 1;
    for (int f : after_[group]) high = std::min(high, stage_[f]);
    return high;
  }

  int Target(int group, Random* random) const {
    const int low = Lowest(group), high = Highest(group), here = stage_[group];
    if (low == high) return here;
    if (!random->Chance(kNext)) return low + random->Below(high - low + 1);
    return std::max(low, std::min(high, random->Chance(0.5) ? here + 1 : here - 1));
  }

  void ShiftBack(int group, int from, int to, Random* random) {
    for (int i = 0; i < kTries; ++i) {
      const int g = Drawn(random);
      if (g == group || stage_[g] != from || to < Lowest(g) || to > Highest(g)) continue;
      Shift(g, to);
      return;
    }
  }

  /*! \brief Shift a group whatever is in the way, which is taken along as far. */
  void Push(int group, int stage) {
    if (stage == stage_[group]) return;
    const bool up = stage > stage_[group];
    pushed_.assign(1, group);
    Shift(group, stage);
    for (size_t i = 0; i < pushed_.size(); ++i) {
      for (int f : (up ? after_ : before_)[pushed_[i]]) {
        if (up ? stage_[f] >= stage : stage_[f] <= stage) continue;
        Shift(f, stage);
        pushed_.push_back(f);
      }
      if (pushed_.size() > kMostPushed) {
        for (size_t k = shifts_.size(); k > 0; --k) Put(shifts_[k - 1].first, shifts_[k - 1].second);
        shifts_.clear();
        return;
      }
    }
  }

  void Exchange(Random* random) {
    const int a = random->Below(devices_), b = random->Below(devices_);
    if (a == b) return;
    devices_before_ = device_;
    std::swap(device_[a], device_[b]);
    ++work_;
  }

  void Insert(Random* random) {
    const int a = random->Below(devices_), b = random->Below(devices_);
    if (a == b) return;
    devices_before_ = device_;
    const auto at = [&](int i) { return device_.begin() + i; };
    if (a < b) std::rotate(at(a), at(a) + 1, at(b) + 1);
    if (b < a) std::rotate(at(b), at(a), at(a) + 1);
    ++work_;
    if (count_[a] > 0) return;
    for (int g : movable_) {
      const int s = stage_[g];
      if (a < s && s <= b) Shift(g, s - 1);
      if (b <= s && s < a) Shift(g, s + 1);
    }
  }

  Score Valued() const {
    double most = 0.0;
    for (int s = 0; s < devices_; ++s) {
      if (barred_[static_cast<size_t>(s) * devices_ + device_[s]] > 0) return Score{};
      most = std::max(most, Load(s));
    }
    return {most, most, 0.0};
  }

  double Term(int stage) const {
    return std::exp(std::min(kMostPower, (Load(stage) - reference_) / smooth_));
  }

  void Smooth(double seconds) {
    smooth_ = std::max(1e-300, seconds);
    SumTerms();
  }

  void SumTerms() {
    reference_ = Valued().possible() ? Valued().value : 0.0;
    sum_ = 0.0;
    for (int s = 0; s < devices_; ++s) sum_ += terms_[s] = Term(s);
  }

  /*! \brief Terms of stages that have changed. */
  void Refresh() {
    if (!devices_before_.empty()) {
      SumTerms();
      return;
    }
    for (int s : touched_) {
      const double term = Term(s);
      sum_ += term - terms_[s];
      terms_[s] = term;
    }
    if (!(sum_ > 0.5)) SumTerms();
  }

  const Problem& problem_;
  const int devices_;
  std::vector<int> movable_;     //!< groups that are in stages
  std::vector<int> stage_;       //!< of a group
  std::vector<int> device_;      //!< of a stage
  std::vector<double> seconds_;  //!< [group, device]
  std::vector<double> fixed_;    //!< [device] work of groups in no stage
  std::vector<double> loads_;    //!< [stage, device]
  std::vector<int> barred_;      //!< [stage, device]: groups that the device cannot run
  std::vector<int> count_;       //!< [stage] groups
  Rows<int> before_, after_;     //!< groups that a group reads, and that read it
  std::vector<std::pair<int, int>> shifts_;  //!< of this move: group, stage before
  std::vector<int> touched_;                 //!< of this move: stages, each once
  std::vector<int> devices_before_;          //!< of this move; empty if the order is as it was
  std::vector<int> pushed_;
  std::vector<int> best_stage_, best_device_;
  double best_value_ = 0.0;
  double smooth_ = 1.0, reference_ = 0.0, sum_ = 0.0;
  std::vector<double> terms_;
  int step_ = -1;
  int changes_ = 0;
  int64_t work_ = 0;
};

}  // namespace

bool OnlyWorkLoads(const Problem& problem) {
  if (!problem.acyclic || problem.contended || problem.memory_binds || problem.links.teams()) {
    return false;
  }
  for (int size = 0; size < static_cast<int>(problem.size_bytes.size()); ++size) {
    for (int a = 0; a < problem.devices; ++a) {
      for (int b = 0; b < problem.devices; ++b) {
        if (a != b && !(problem.links.Delay(size, a, b) < kInfinity)) return false;
      }
    }
  }
  return true;
}

TvmHeteroSearchResult AnnealStages(const Problem& problem, const TvmHeteroSearchSettings& settings,
                                   int32_t* placement) {
  StageModel model(problem, placement);
  TvmHeteroSearchSettings own = settings;
  own.heat *= kHeat;
  TvmHeteroSearchResult result = Annealer<StageModel>(own, kTuning, &model).Run();
  model.Write(placement);
  return result;
}

}  // namespace tvm_hetero::search
