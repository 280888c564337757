// A control variate for the gradient of ARLB, the symmetric KL.
//
// Two sums have expectation zero whatever the parameters: over candidates x' ~ q that of d log q(x'), and over states
// x ~ p that of d log p0(z), where p0 is the target carried back to the base and z the state there, held fixed. Added
// with the weights of the objective they leave of the gradient what depends on grad log p - grad log q alone (path
// gradients: Roeder, Wu and Duvenaud 2017; for both halves Vaitl, Winkler, Richter and Kessel 2024), and where q is the
// target that is without noise.
//
// They are used with care:
// - Far from the target, between modes above all, they may bring more noise than they take. They enter with a factor
//   that follows from how gradient and control varied together between the shards of earlier steps.
// - The second expectation is zero only if the states are the target's, and only through states in every gap: between
//   modes that no state joins, the controlled gradient no longer sees the modes' weights. So their mean over the last
//   steps must be zero within its noise.
// - Both need a density without edges; steps with candidates outside of it are not controlled (step.h).
// - They double the cost of a step. Where they do not pay they are computed now and then only, to see whether that has
//   changed.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "hastings/proposal/flow_proposal.h"

namespace hastings {

class Control {
 public:
  // Is this step to be controlled?
  bool next() { return on_ || ++idle_ % kProbe == 0; }

  // Adds the factor times the sum of the shards' controls to `total`, the sum of their gradients.
  template <class Shards>
  void add(const Shards& shards, std::span<double> total) {
    for (auto* vector : {&gradient_, &control_, &sum_, &mean_}) vector->resize(total.size(), 0.0);
    const double factor = on_ ? this->factor() : 0.0, count = static_cast<double>(shards.size());
    std::fill(sum_.begin(), sum_.end(), 0.0);
    Products between;
    for (const auto& shard : shards) {
      read(*shard.pass, gradient_);
      read(*shard.control, control_);
      between.add(gradient_, control_, 1);
      for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += control_[i];
    }
    between.add(total, sum_, -1 / count);
    if (!std::isfinite(between.uu) || !(between.gg > 0)) return;
    // In units of the gradient's own variance: a few steps of huge gradients are not to decide alone, nor a single one
    // of a huge control for ever.
    const double scale = 1 / std::max(between.gg, between.uu / kSpike), root = std::sqrt(scale);
    weight_ += kMemory * (1 - weight_);
    square_weight_ += kMemory * kMemory - (1 - (1 - kMemory) * (1 - kMemory)) * square_weight_;
    gg_ += kMemory * (between.gg * scale - gg_);
    gu_ += kMemory * (between.gu * scale - gu_);
    uu_ += kMemory * (between.uu * scale - uu_);
    mean_square_ = 0;
    for (size_t i = 0; i < sum_.size(); ++i) {
      mean_[i] += kMemory * (root * sum_[i] - mean_[i]);
      mean_square_ += mean_[i] * mean_[i];
    }
    // A sum of `count` shards, each with the variance that was seen between them.
    noise_ = uu_ / weight_ * count / (count - 1) * square_weight_;
    for (size_t i = 0; i < sum_.size(); ++i) total[i] += factor * sum_[i];
  }

  // At the end of a window: half of the variance must be gone, and the mean be as small as noise makes it.
  void review() { on_ = explained() > 0.5 && drift() < kDrift; }
  // Share of the gradient's variance that the controls take away.
  double explained() const { return gu_ < 0 && uu_ > 0 ? gu_ * gu_ / (gg_ * uu_) : 0.0; }
  // Square of the controls' mean over the last steps, in units of its expectation if there were noise alone.
  double drift() const { return noise_ > 0 ? mean_square_ / noise_ : 0.0; }

  template <class Archive>
  void fields(Archive& a) {
    a("gg", gg_);
    a("gu", gu_);
    a("uu", uu_);
    a("weight", weight_);
    a("square_weight", square_weight_);
    a("mean_square", mean_square_);
    a("noise", noise_);
    a("mean", mean_);
    a("on", on_);
    a("idle", idle_);
  }

 private:
  static constexpr double kMemory = 0.02, kSpike = 100, kDrift = 3;
  static constexpr int64_t kProbe = 10;

  double factor() const { return uu_ > 0 ? std::clamp(-gu_ / uu_, 0.0, 1.0) : 0.0; }

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
  // Decaying means over the steps: variances and covariance between shards, and the control itself.
  double gg_ = 0, gu_ = 0, uu_ = 0;
  std::vector<double> mean_;
  double weight_ = 0, square_weight_ = 0;  // sum of the means' weights, and of their squares
  double mean_square_ = 0, noise_ = 0;
  bool on_ = true;
  int64_t idle_ = 0;  // steps while off
};

}  // namespace hastings
