// A control variate for the gradients of AR and ARLB.
//
// Two sums have expectation zero whatever the parameters: over candidates that of d log q(x'), and over states that of
// d log p0(z), where p0 is the target carried back to the base and z the state there, held fixed. Added with the mean
// weights of the objective they leave of ARLB's gradient what depends on the difference of grad log p and grad log q
// alone (path gradients; Roeder, Wu and Duvenaud 2017, for both divergences Vaitl, Nicoli, Nakajima and Kessel 2022),
// which is without noise where q is the target. Far from there, between modes above all, they may bring more noise than
// they take. So they enter with a factor, which follows from how gradient and control varied together between the
// shards of earlier steps; and where they do not pay for themselves they are computed now and then only, to see whether
// that has changed.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "hastings/proposal/flow_proposal.h"
#include "state.h"

namespace hastings {

class Control {
 public:
  explicit Control(size_t parameters) : gradient_(parameters), control_(parameters), sum_(parameters) {}

  // Is this step to be controlled?
  bool next() { return on_ || ++idle_ % kProbe == 0; }

  // Adds the factor times the sum of the shards' controls to `total`, the sum of their gradients.
  template <class Shards>
  void add(const Shards& shards, std::span<double> total) {
    const double factor = uu_ > 0 ? std::clamp(-gu_ / uu_, 0.0, 1.0) : 0.0;
    std::fill(sum_.begin(), sum_.end(), 0.0);
    Products between;
    for (const auto& shard : shards) {
      read(*shard.pass, gradient_);
      read(*shard.control, control_);
      between.add(gradient_, control_, 1);
      for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += control_[i];
    }
    between.add(total, sum_, -1 / static_cast<double>(shards.size()));
    if (!std::isfinite(between.uu) || !(between.gg > 0)) return;
    // Relative to the gradient's own: a few steps of huge gradients are not to decide alone.
    gu_ += kMemory * (between.gu / between.gg - gu_);
    uu_ += kMemory * (between.uu / between.gg - uu_);
    for (size_t i = 0; i < sum_.size(); ++i) total[i] += factor * sum_[i];
  }

  // At the end of a window: a step with controls costs twice as much, and pays if half of the variance is gone.
  void review() { on_ = explained() > 0.5; }
  double explained() const { return gu_ < 0 && uu_ > 0 ? gu_ * gu_ / uu_ : 0.0; }

  void save(State& state) const {
    put(state, "control.numbers", std::vector<double>{gu_, uu_});
    put(state, "control.counts", std::vector<int64_t>{on_, idle_});
  }
  void load(const State& state) {
    const auto numbers = get_doubles(state, "control.numbers");
    gu_ = numbers.at(0);
    uu_ = numbers.at(1);
    const auto counts = get_integers(state, "control.counts");
    on_ = counts.at(0) != 0;
    idle_ = counts.at(1);
  }

 private:
  static constexpr double kMemory = 0.02;
  static constexpr int64_t kProbe = 10;

  struct Products {
    double gg = 0, gu = 0, uu = 0;
    void add(std::span<const double> g, std::span<const double> u, double weight) {
      double a = 0, b = 0, c = 0;
#pragma omp simd reduction(+ : a, b, c)
      for (size_t i = 0; i < g.size(); ++i) {
        a += g[i] * g[i];
        b += g[i] * u[i];
        c += u[i] * u[i];
      }
      gg += weight * a;
      gu += weight * b;
      uu += weight * c;
    }
  };
  static void read(const Pass& pass, std::vector<double>& to) {
    std::fill(to.begin(), to.end(), 0.0);
    pass.add_gradient_to(to);
  }

  std::vector<double> gradient_, control_, sum_;
  double gu_ = 0, uu_ = 0;  // covariance with the control and its variance between shards, in variances of the gradient
  bool on_ = true;
  int64_t idle_ = 0;  // steps while off
};

}  // namespace hastings
