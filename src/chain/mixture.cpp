#include "hastings/chain/mixture.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

namespace hastings {
namespace {

class RandomWalkMixture final : public Kernel {
 public:
  RandomWalkMixture(Density density, const Proposal& independent, double share, const Tensor& factor, double step_size)
      : Kernel(decide_exactly(std::move(density))),
        independent_(independent),
        share_(share),
        step_t_((factor * step_size).t().contiguous()),
        inverse_t_(
            at::linalg_solve_triangular(factor * step_size, at::eye(factor.size(0), at::kDouble), /*upper=*/false)
                .t()
                .contiguous()),
        log_scale_((factor.diagonal() * step_size).log().sum().item<double>()) {}
  Move propose(const State& state, const ChainStreams& streams) const override {
    const int64_t n = state.x.size(0), dim = state.x.size(1);
    const Tensor pick = at::lt(streams.accept.uniform(n), share_);
    const Draws drawn = independent_.from_noise(streams.noise.normal(n, independent_.noise_dim()));
    const Tensor walked = state.x + at::matmul(streams.noise.normal(n, dim), step_t_);
    const Tensor x = at::where(pick.unsqueeze(1), drawn.x, walked);
    const Tensor q_there = at::where(pick, drawn.log_q, independent_.log_prob(walked));
    const Tensor q_here = independent_.log_prob(state.x);
    const Tensor walk = at::matmul(x - state.x, inverse_t_).square().sum(-1) * -0.5 - log_scale_ -
                        0.5 * static_cast<double>(dim) * std::log(2 * std::numbers::pi);
    const Tensor log_walk = walk + std::log1p(-share_);
    return {
        x, {}, at::logaddexp(q_there + std::log(share_), log_walk), at::logaddexp(q_here + std::log(share_), log_walk)};
  }

 private:
  const Proposal& independent_;
  double share_;
  Tensor step_t_, inverse_t_;
  double log_scale_;
};

}  // namespace

std::unique_ptr<Kernel> make_random_walk_mixture(Density density, const Proposal& independent, double share,
                                                 const Tensor& factor, double step_size) {
  return std::make_unique<RandomWalkMixture>(std::move(density), independent, share, factor, step_size);
}

}  // namespace hastings
