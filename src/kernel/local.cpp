#include "hastings/kernel/local.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "hastings/core/accept.h"

namespace hastings {

LocalInfo metropolis_step(LocalState& state, const Tensor& x, const Evaluated& at_x, const Tensor& log_forward,
                          const Tensor& log_reverse, const Tensor& uniform) {
  Tensor candidate = at_x.log_prob;
  if (log_reverse.defined()) candidate = candidate + log_reverse;
  if (log_forward.defined()) candidate = candidate - log_forward;
  const Tensor r = log_ratio(candidate, state.log_prob);
  LocalInfo info;
  info.accepted = accept_mask(uniform.log(), r);
  info.accept_prob = r.clamp_max(0).exp().nan_to_num(0);
  info.non_finite = at::logical_not(at::isfinite(candidate)).sum().item<int64_t>();
  const Tensor column = info.accepted.unsqueeze(1);
  state.x = at::where(column, x, state.x);
  state.log_prob = at::where(info.accepted, at_x.log_prob, state.log_prob);
  if (at_x.gradient.defined() && state.gradient.defined())
    state.gradient = at::where(column, at_x.gradient, state.gradient);
  return info;
}

LocalState LocalKernel::init(const Tensor& x, const Density& density) const {
  const Evaluated at_x = density(x, needs_gradient());
  return {x, at_x.log_prob, at_x.gradient};
}

namespace {

Tensor inverse_of(const Tensor& factor) {
  return at::linalg_solve_triangular(factor, at::eye(factor.size(0), at::kDouble), /*upper=*/false);
}

class RandomWalk final : public LocalKernel {
 public:
  RandomWalk(const Tensor& factor, double step_size) : step_t_((factor * step_size).t().contiguous()) {}
  LocalInfo step(LocalState& state, const Density& density, RowStreams noise, RowStreams uniforms) const override {
    const int64_t n = state.x.size(0);
    const Tensor x = state.x + at::matmul(noise.normal(n, state.x.size(1)), step_t_);
    return metropolis_step(state, x, density(x, false), {}, {}, uniforms.uniform(n));
  }

 private:
  Tensor step_t_;
};

// x' = x + (e^2 / 2) C grad + e L z, C = L L^T. In z units: forward noise z, reverse noise
// z' = L^-1 (x - x' - (e^2/2) C grad') / e; the log densities differ by (|z|^2 - |z'|^2) / 2.
class Mala final : public LocalKernel {
 public:
  Mala(const Tensor& factor, double step_size)
      : factor_t_(factor.t().contiguous()), inverse_t_(inverse_of(factor).t().contiguous()), step_(step_size) {}
  bool needs_gradient() const override { return true; }
  LocalInfo step(LocalState& state, const Density& density, RowStreams noise, RowStreams uniforms) const override {
    const int64_t n = state.x.size(0);
    const Tensor z = noise.normal(n, state.x.size(1));
    const Tensor x = mean(state.x, state.gradient) + step_ * at::matmul(z, factor_t_);
    const Evaluated at_x = density(x, true);
    const Tensor back = at::matmul(state.x - mean(x, at_x.gradient), inverse_t_) / step_;
    return metropolis_step(state, x, at_x, z.square().sum(-1) * -0.5, back.square().sum(-1) * -0.5,
                           uniforms.uniform(n));
  }

 private:
  Tensor mean(const Tensor& x, const Tensor& gradient) const {
    return x + (0.5 * step_ * step_) * at::matmul(at::matmul(gradient, factor_t_.t()), factor_t_);
  }
  Tensor factor_t_, inverse_t_;
  double step_;
};

// Leapfrog in z = L^-1 x units: momentum is standard normal, forces are L^T grad.
class Hmc final : public LocalKernel {
 public:
  Hmc(const Tensor& factor, double step_size, int steps, double jitter)
      : factor_(factor.contiguous()),
        factor_t_(factor.t().contiguous()),
        step_(step_size),
        jitter_(jitter),
        steps_(steps) {}
  bool needs_gradient() const override { return true; }
  LocalInfo step(LocalState& state, const Density& density, RowStreams noise, RowStreams uniforms) const override {
    const int64_t n = state.x.size(0);
    const Tensor start = noise.normal(n, state.x.size(1));
    // One step size for a whole trajectory, drawn without looking at the state.
    const Tensor step = jitter_ == 0 ? at::full({1, 1}, step_, at::kDouble)
                                     : step_ * (1 + jitter_ * (2 * uniforms.uniform(n).unsqueeze(1) - 1));
    Tensor momentum = start + 0.5 * step * at::matmul(state.gradient, factor_);
    Tensor x = state.x;
    Evaluated at_x;
    for (int i = 0; i < steps_; ++i) {
      x = x + step * at::matmul(momentum, factor_t_);
      at_x = density(x, true);
      momentum = momentum + (i + 1 < steps_ ? 1.0 : 0.5) * step * at::matmul(at_x.gradient, factor_);
    }
    return metropolis_step(state, x, at_x, start.square().sum(-1) * -0.5, momentum.square().sum(-1) * -0.5,
                           uniforms.uniform(n));
  }

 private:
  Tensor factor_, factor_t_;
  double step_, jitter_;
  int steps_;
};

class RandomWalkMixture final : public LocalKernel {
 public:
  RandomWalkMixture(IndependentDraws independent, double share, const Tensor& factor, double step_size)
      : independent_(std::move(independent)),
        share_(share),
        step_t_((factor * step_size).t().contiguous()),
        inverse_t_(inverse_of(factor * step_size).t().contiguous()),
        log_scale_((factor.diagonal() * step_size).log().sum().item<double>()) {}
  LocalInfo step(LocalState& state, const Density& density, RowStreams noise, RowStreams uniforms) const override {
    const int64_t n = state.x.size(0), dim = state.x.size(1);
    const Tensor pick = at::lt(uniforms.uniform(n), share_);
    const auto [independent_x, independent_q] = independent_.draw(n, noise);
    const Tensor walked = state.x + at::matmul(noise.normal(n, dim), step_t_);
    const Tensor x = at::where(pick.unsqueeze(1), independent_x, walked);
    const Tensor q_there = at::where(pick, independent_q, independent_.log_prob(walked));
    const Tensor q_here = independent_.log_prob(state.x);
    const Tensor walk = at::matmul(x - state.x, inverse_t_).square().sum(-1) * -0.5 - log_scale_ -
                        0.5 * static_cast<double>(dim) * std::log(2 * std::numbers::pi);
    const Tensor log_walk = walk + std::log1p(-share_);
    return metropolis_step(state, x, density(x, false), at::logaddexp(q_there + std::log(share_), log_walk),
                           at::logaddexp(q_here + std::log(share_), log_walk), uniforms.uniform(n));
  }

 private:
  IndependentDraws independent_;
  double share_;
  Tensor step_t_, inverse_t_;
  double log_scale_;
};

}  // namespace

std::unique_ptr<LocalKernel> make_random_walk(Tensor factor, double step_size) {
  return std::make_unique<RandomWalk>(factor, step_size);
}
std::unique_ptr<LocalKernel> make_mala(Tensor factor, double step_size) {
  return std::make_unique<Mala>(factor, step_size);
}
std::unique_ptr<LocalKernel> make_hmc(Tensor factor, double step_size, int leapfrog_steps, double jitter) {
  return std::make_unique<Hmc>(factor, step_size, leapfrog_steps, jitter);
}
std::unique_ptr<LocalKernel> make_random_walk_mixture(IndependentDraws independent, double share, Tensor factor,
                                                      double step_size) {
  return std::make_unique<RandomWalkMixture>(std::move(independent), share, factor, step_size);
}

}  // namespace hastings
