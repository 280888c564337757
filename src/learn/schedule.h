// When learning lowers its rate, changes its objective, and ends.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "hastings/learn/learner.h"

namespace hastings {

// Judges progress window by window: lowers the rate when the acceptance rate stops rising, ends after the last
// reduction. With AR as objective the first stage runs on ARLB, whose gradient does not vanish without overlap.
class Schedule {
 public:
  Schedule(const LearnOptions& options, double start_acceptance, double start_kl)
      : options_(options),
        goal_(parse_objective(options.objective)),
        objective_(goal_ == Objective::kAr && options.lead_in &&
                           (options.lead_share > 0 || !(start_acceptance >= kOverlap && start_kl < kClose))
                       ? Objective::kArlb
                       : goal_),
        rate_(options.learning_rate),
        peak_(start_acceptance) {}

  Objective objective() const { return objective_; }
  double rate() const { return rate_; }
  // Adam's first steps have full length whatever the gradient; they are taken carefully, and again after a step back.
  double rate_at(int64_t step) const { return rate_ * std::min(1.0, static_cast<double>(step + 1 - since_) / kWarmUp); }
  void warm_up(int64_t step) {
    since_ = step;
    waited_ = -static_cast<int64_t>(kWarmUp) / options_.window;  // small steps are not expected to show progress
  }
  bool finished() const { return finished_; }

  // Progress: of the acceptance rate, or of its own objective where that is the reverse KL.
  // `done`: the share of the steps. True where learning goes back to its best: where the rate falls, or the target is
  // lost.
  bool window(double loss, double acceptance, double symmetric_kl, double done) {
    peak_ = std::max(peak_, acceptance);
    // A proposal that lost its target goes back: AR has no gradient without overlap, and ARLB would find it again in a
    // worse arrangement. ARLB loses it by noise, and tries some times more at its rate.
    if (goal_ != Objective::kVi && acceptance < kLost * peak_)
      return (objective_ == Objective::kArlb && ++lost_ <= kTries) || lower_rate();
    const bool better =
        goal_ == Objective::kVi ? loss < best_loss_ - 0.002 : acceptance > best_ + 0.0003 + 0.003 * (1 - acceptance);
    if (better) {
      best_ = acceptance;
      best_loss_ = loss;
      waited_ = 0;
    } else {
      ++waited_;
    }
    if (objective_ != goal_) {
      // A proposal that misses a mode may accept well elsewhere; its divergence still is large.
      const bool overlaps = acceptance >= kOverlap && symmetric_kl < kClose;
      if (done >= options_.lead_share && (overlaps || waited_ > options_.patience)) {
        objective_ = goal_;
        waited_ = 0;
      }
      return false;
    }
    // When half of the steps are done, and again of what is left, the rate falls in any case: the noise of a large one
    // is not to be what is frozen. Never more often than allowed: that would end learning before its steps do.
    const bool due = goal_ != Objective::kVi && reductions_ < options_.reductions &&
                     1 - done <= std::pow(0.5, static_cast<double>(reductions_ + 1));
    return (due || waited_ >= options_.patience) && lower_rate();
  }

  template <class Archive>
  void fields(Archive& a) {
    a("objective", objective_);
    a("rate", rate_);
    a("best", best_);
    a("best_loss", best_loss_);
    a("peak", peak_);
    a("waited", waited_);
    a("reductions", reductions_);
    a("since", since_);
    a("finished", finished_);
    a("lost", lost_);
  }

 private:
  bool lower_rate() {
    waited_ = lost_ = 0;
    finished_ = reductions_ == options_.reductions;
    ++reductions_;
    rate_ *= std::sqrt(0.1);
    return true;
  }

  static constexpr double kOverlap = 0.4, kClose = 2.0, kWarmUp = 100;
  static constexpr double kLost = 0.7;  // share of the best acceptance rate
  static constexpr int64_t kTries = 10;
  LearnOptions options_;
  Objective goal_, objective_;
  double rate_, peak_, best_ = 0, best_loss_ = std::numeric_limits<double>::infinity();
  int64_t waited_ = 0, lost_ = 0, reductions_ = 0, since_ = 0;
  bool finished_ = false;
};

}  // namespace hastings
