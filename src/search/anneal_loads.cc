#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "search/anneal.h"
#include "search/annealer.h"
#include "search/loads.h"
#include "search/random.h"

namespace tvm_hetero::search {
namespace {

constexpr Tuning kTuning{1.0, 1e-3, 6};

// Shares of the moves, found by trying on the project's benchmark graphs.
constexpr double kFromBusiest = 0.15;
constexpr double kSwap = 0.2;
constexpr double kBorder = 0.25;
constexpr double kCluster = 0.2;
constexpr double kStretch = 0.1;
constexpr double kGrow = 0.8;
constexpr int kTries = 8;
constexpr int kMostCluster = 64;
// Smoothness (see loads.h) at the beginning and at the end of a run, in parts of the best value,
// and the number of steps from one to the other.
constexpr double kSmooth = 1e-2, kSmoothLast = 1e-4;
constexpr int kSteps = 200;

/*! \brief Placements by their loads. See annealer.h. */
class LoadModel {
 public:
  LoadModel(const Problem& problem, const int32_t* placement)
      : problem_(&problem), loads_(problem, placement), best_(loads_.placement()) {
    if (!loads_.Pipeline()) throw std::invalid_argument("the start is no pipeline of devices");
    for (int g = 0; g < problem.allowed.rows(); ++g) {
      if (!problem.members[g].empty() && problem.allowed[g].size() > 1) movable_.push_back(g);
    }
  }

  Score Start() {
    const Score score = loads_.Valued();
    loads_.Smooth(kSmooth * score.value);
    return score;
  }

  bool Propose(Random* random) {
    changes_.clear();
    if (movable_.empty()) return false;
    double draw = random->Unit();
    if ((draw -= kFromBusiest) < 0) {
      FromBusiest(random);
    } else if ((draw -= kSwap) < 0) {
      Swap(random);
    } else if ((draw -= kBorder) < 0) {
      Border(1, random);
    } else if ((draw -= kCluster) < 0) {
      int size = 2;
      while (size < kMostCluster && random->Chance(kGrow)) ++size;
      Border(size, random);
    } else if ((draw -= kStretch) < 0) {
      Stretch(random);
    } else {
      int g = RandomGroup(random);
      Move(g, Target(g, random));
    }
    return !changes_.empty();
  }

  Score Evaluate(double) {
    if (!loads_.Pipeline()) return Score{};
    return loads_.Valued();
  }
  double CostOf(const Score&) { return loads_.Cost(); }

  void Cool(double progress) {
    const int step = static_cast<int>(progress * kSteps);
    if (step == step_) return;
    step_ = step;
    const double part = kSmooth * std::pow(kSmoothLast / kSmooth, progress);
    loads_.Smooth(part * best_value_);
  }
  void Accept() {
    for (const Change& change : changes_) changed_.push_back(change.group);
    if (changed_.size() < 2 * movable_.size()) return;
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
  }

  void Reject() {
    for (size_t i = changes_.size(); i > 0; --i) {
      loads_.Move(changes_[i - 1].group, changes_[i - 1].device);
    }
    changes_.clear();
  }

  void Keep() {
    best_ = loads_.placement();
    best_value_ = loads_.Valued().value;
  }

  Score Return() {
    for (int g = 0; g < problem_->members.rows(); ++g) {
      if (problem_->members[g].empty()) continue;
      int v = problem_->members[g][0];
      if (loads_.device(v) != best_[v]) loads_.Move(g, best_[v]);
    }
    changed_.clear();
    return loads_.Valued();
  }

  int64_t work() const { return loads_.work(); }
  int charge() const { return loads_.charge(); }
  const std::vector<int>& best() const { return best_; }

 private:
  struct Change {
    int group, device;
  };

  int RandomGroup(Random* random) {
    return movable_[random->Below(static_cast<int>(movable_.size()))];
  }
  int Place(int group) const { return loads_.device(problem_->members[group][0]); }

  void Move(int group, int device) {
    int before = Place(group);
    if (before == device) return;
    changes_.push_back({group, before});
    loads_.Move(group, device);
  }

  bool Allowed(int group, int device) const {
    return problem_->Allowed(problem_->members[group][0], device);
  }

  /*! \brief Where a group could go: to a neighbour, or anywhere. */
  int Target(int group, Random* random) {
    Span<int> members = problem_->members[group];
    int v = members[random->Below(members.size())];
    if (random->Chance(0.6)) {
      Span<int> near = random->Chance(0.5) ? problem_->makers[v] : problem_->followers[v];
      if (!near.empty()) {
        int d = loads_.device(near[random->Below(near.size())]);
        if (d != Place(group) && Allowed(group, d)) return d;
      }
    }
    Span<int> allowed = problem_->allowed[group];
    return allowed[random->Below(allowed.size())];
  }

  /*! \brief A random group with the wanted place among a few that are drawn. */
  int GroupOn(int device, Random* random) {
    for (int i = 0; i < kTries; ++i) {
      int g = RandomGroup(random);
      if (Place(g) == device) return g;
    }
    return -1;
  }

  /*! \brief The same of a resource: of a team one of whose cores it is; any group of a link. */
  int GroupAt(int resource, Random* random) {
    if (!problem_->links.teams()) return RandomGroup(random);
    for (int i = 0; i < kTries; ++i) {
      int g = RandomGroup(random);
      for (int r : problem_->links.Cores(Place(g))) {
        if (r == resource) return g;
      }
    }
    return RandomGroup(random);
  }

  void FromBusiest(Random* random) {
    int busiest = loads_.Busiest();
    int g = busiest < problem_->devices ? GroupOn(busiest, random) : GroupAt(busiest, random);
    if (g < 0) return;
    int d = Target(g, random);
    // Something in return, or every device but the busiest would fill up.
    int h = random->Chance(0.3) ? GroupOn(d, random) : -1;
    int here = Place(g);
    Move(g, d);
    if (h >= 0 && h != g && Allowed(h, here)) Move(h, here);
  }

  void Swap(Random* random) {
    int g = RandomGroup(random), here = Place(g);
    int d = Target(g, random);
    int h = GroupOn(d, random);
    if (d == here || h < 0 || !Allowed(h, here)) return;
    Move(g, d);
    Move(h, here);
  }

  /*! \brief Take one end of a tensor that is copied, and its likes around it, to the other end. */
  void Border(int size, Random* random) {
    const Problem& p = *problem_;
    if (p.fetches == 0) return;
    for (int i = 0; i < kTries; ++i) {
      int fetch = random->Below(p.fetches);
      int v = p.maker[p.fetch_tensor[fetch]], w = p.fetch_reader[fetch];
      if (random->Chance(0.5)) std::swap(v, w);
      if (loads_.device(v) == loads_.device(w)) continue;
      TakeAlong(v, loads_.device(w), size, random);
      return;
    }
  }

  /*! \brief Move a connected cluster around a part that runs where the part does. */
  void TakeAlong(int part, int device, int size, Random* random) {
    const Problem& p = *problem_;
    const int here = loads_.device(part);
    if (!p.Allowed(part, device)) return;
    cluster_.assign(1, part);
    Move(p.group[part], device);
    for (size_t i = 0; i < cluster_.size() && size > 1; ++i) {
      for (const Rows<int>* rows : {&p.makers, &p.followers}) {
        for (int v : (*rows)[cluster_[i]]) {
          if (static_cast<int>(cluster_.size()) >= size) return;
          if (loads_.device(v) != here || !p.Allowed(v, device) || random->Chance(0.15)) continue;
          Move(p.group[v], device);
          cluster_.push_back(v);
        }
      }
    }
  }

  /*! \brief Of a stretch of the topological order, move what runs on one device. */
  void Stretch(Random* random) {
    const Problem& p = *problem_;
    int from = random->Below(p.parts);
    int v = p.topological[from];
    const int here = loads_.device(v), there = Target(p.group[v], random);
    int length = 2;
    while (length < kMostCluster && random->Chance(0.9)) ++length;
    for (int i = from; i < std::min(p.parts, from + length); ++i) {
      int w = p.topological[i];
      if (loads_.device(w) == here && p.Allowed(w, there)) Move(p.group[w], there);
    }
  }

  const Problem* problem_;
  Loads loads_;
  std::vector<int> best_;
  std::vector<int> movable_;
  std::vector<Change> changes_;
  std::vector<int> changed_;  //!< groups since the best placement, some more than once
  std::vector<int> cluster_;
  double best_value_ = 0.0;
  int step_ = -1;
};

}  // namespace

TvmHeteroSearchResult AnnealLoads(const Problem& problem, const TvmHeteroSearchSettings& settings,
                                  int32_t* placement) {
  if (OnlyWorkLoads(problem)) return AnnealStages(problem, settings, placement);
  LoadModel model(problem, placement);
  Tuning tuning = kTuning;
  tuning.overhead *= model.charge();
  TvmHeteroSearchResult result = Annealer<LoadModel>(settings, tuning, &model).Run();
  std::copy(model.best().begin(), model.best().end(), placement);
  return result;
}

}  // namespace tvm_hetero::search
