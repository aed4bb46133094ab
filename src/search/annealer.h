/*!
 * \file search/annealer.h
 * \brief Simulated annealing, whatever it is that is annealed.
 *
 * S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi: Optimization by Simulated Annealing, Science
 * 220(4598), 1983, doi:10.1126/science.220.4598.671. A candidate of cost x' is taken in place of x
 * with probability min(1, exp((x - x') / T)). That is the same as taking it if
 *
 *   x' <= x + T * E,   E exponentially distributed with mean 1,
 *
 * and E is drawn before the candidate is looked at, so that work on it can stop where it is lost
 * already. T falls geometrically with the work that is done.
 *
 * Limits (memory, latency) may be broken on the way: a state costs its own cost + scale * penalty,
 * the penalty rising with the excess and, as T falls, with time. The best state is that with the
 * least excess (0: it keeps all limits), and of these the one of least value; it is kept apart.
 *
 * A Model has
 *
 *   Score Start()                        the score of the state to begin from
 *   bool Propose(Random*)                change it a little; false if there is no change
 *   Score Evaluate(double limit)         score a change; value infinity if its cost exceeds limit
 *   double CostOf(const Score&)          what is minimised, limits aside (of what was last scored)
 *   void Accept(), void Reject()         keep the change, take it back
 *   void Keep(), Score Return()          remember the state as the best one, go back to it
 *   void Cool(double progress)           within a run, from 0 to 1: what it minimises may change
 *   int64_t work()                       counted so far
 */
#ifndef TVM_HETERO_SEARCH_ANNEALER_H_
#define TVM_HETERO_SEARCH_ANNEALER_H_

#include <tvm_hetero/search.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "search/random.h"
#include "search/score.h"
#include "search/stop.h"

namespace tvm_hetero::search {

/*! \brief -log(U), U uniform: mean 1. By table, since a logarithm takes as long as ten parts. */
class Exponential {
 public:
  Exponential() {
    for (int i = 0; i < kSize; ++i) table_[i] = -std::log((i + 0.5) / kSize);
  }
  double Draw(Random* random) const { return table_[random->Next() >> (64 - kBits)]; }

 private:
  static constexpr int kBits = 12, kSize = 1 << kBits;
  double table_[kSize];
};

/*! \brief Figures of an annealing that were found by trying. */
struct Tuning {
  double heat;   //!< first temperature, times what a random move changes on average
  double cold;   //!< last temperature, times the first
  int overhead;  //!< what a candidate takes besides the model's own work
};

template <typename Model>
class Annealer {
 public:
  Annealer(const TvmHeteroSearchSettings& settings, const Tuning& tuning, Model* model)
      : settings_(settings), tuning_(tuning), random_(settings.seed), model_(model) {}

  TvmHeteroSearchResult Run() {
    current_ = best_ = model_->Start();
    current_cost_ = model_->CostOf(current_);
    model_->Keep();
    scale_ = current_.possible() ? current_cost_ : 1.0;
    if (current_cost_ > 0) Search();
    model_->Return();
    return {best_.value, best_.makespan, best_.excess, evaluations_, Work(), stopped_ ? 1 : 0, 0};
  }

 private:
  // Candidates between two looks at budget and clock.
  static constexpr int kRound = 64;
  static constexpr int kSamples = 256;
  // Work between two looks at the clock: milliseconds, however much a candidate takes.
  static constexpr int64_t kClockEvery = 100'000;
  // Penalty of breaking a limit at all, and times the excess, in parts of the cost.
  static constexpr double kBroken = 0.01, kExcess = 2.0;
  static constexpr double kPressure = 9.0;

  int64_t Work() const { return model_->work() + evaluations_ * tuning_.overhead; }

  /*! \brief How much of the budget is used: from 1 on there is none left. */
  double Progress() {
    double used = 0.0;
    if (settings_.evaluations > 0) {
      used = static_cast<double>(evaluations_) / static_cast<double>(settings_.evaluations);
    }
    if (settings_.work > 0) {
      used = std::max(used, static_cast<double>(Work()) / static_cast<double>(settings_.work));
    }
    if (used < 1) Look();
    return stopped_ ? 1.0 : used;
  }

  void Look() {
    std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
    if (IsStopped() || passed.count() > settings_.deadline) stopped_ = true;
    look_ = Work() + kClockEvery;
  }

  /*! \brief Whether the clock has run out, which is looked at again after some work only. */
  bool Late() {
    if (Work() >= look_) Look();
    return stopped_;
  }

  void Search() {
    double heat = settings_.heat > 0 ? settings_.heat * scale_ : tuning_.heat * MeanChange();
    if (!(heat > 0)) heat = 0.01 * scale_;
    const int runs = std::max(1, settings_.restarts);
    int current_run = 0;
    for (double progress = Progress(); progress < 1; progress = Progress()) {
      const int run = static_cast<int>(progress * runs);
      if (run > current_run) {
        current_run = run;
        current_ = model_->Return();
      }
      // Later runs begin colder: they are to mend the best state, not to lose it.
      const double within = progress * runs - run;
      const double first = heat * std::pow(0.5, std::min(run, 4));
      temperature_ = first * std::pow(heat * tuning_.cold / first, within);
      pressure_ = 1 + kPressure * within;
      model_->Cool(within);
      current_cost_ = model_->CostOf(current_);
      for (int i = 0; i < kRound && !Late(); ++i) Step();
    }
  }

  double Penalised(double cost, double excess) const {
    if (excess <= 0) return cost;
    return cost + scale_ * pressure_ * (kBroken + kExcess * excess);
  }

  void Step() {
    ++evaluations_;
    if (!model_->Propose(&random_)) return;
    const double limit =
        Penalised(current_cost_, current_.excess) + temperature_ * exponential_.Draw(&random_);
    const Score score = model_->Evaluate(limit);
    const double cost = score.possible() ? model_->CostOf(score) : kInfinity;
    // From an impossible start everything possible is welcome.
    if (!score.possible() || !(Penalised(cost, score.excess) <= limit)) {
      model_->Reject();
      return;
    }
    model_->Accept();
    current_ = score;
    current_cost_ = cost;
    if (score.BetterThan(best_)) {
      best_ = score;
      model_->Keep();
    }
  }

  /*! \brief By how much a random move changes the start, for better or worse, on average. */
  double MeanChange() {
    double sum = 0.0;
    int count = 0;
    for (int i = 0; i < kSamples; ++i) {
      if ((i % 16 == 15 && Progress() > 0.05) || Late()) break;
      ++evaluations_;
      if (!model_->Propose(&random_)) continue;
      const Score score = model_->Evaluate(kInfinity);
      if (score.possible()) {
        double change = std::abs(Penalised(model_->CostOf(score), score.excess) -
                                 Penalised(current_cost_, current_.excess));
        // Moves that change nothing say nothing about how large a change is.
        if (change > 0) {
          sum += std::min(change, scale_);
          ++count;
        }
      }
      model_->Reject();
    }
    return count > 0 ? sum / count : 0.0;
  }

  const TvmHeteroSearchSettings settings_;
  const Tuning tuning_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int64_t look_ = 0;
  Random random_;
  Exponential exponential_;
  Model* model_;
  Score current_, best_;
  double current_cost_ = 0.0;
  double scale_ = 1.0;
  double temperature_ = 0.0;
  double pressure_ = 1.0;
  int64_t evaluations_ = 0;
  bool stopped_ = false;
};

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_ANNEALER_H_
