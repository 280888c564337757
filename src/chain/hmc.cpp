#include "hastings/chain/hmc.h"

#include <ATen/ATen.h>

namespace hastings {
namespace {

class Hmc final : public Kernel {
 public:
  Hmc(Density density, const Tensor& factor, double step_size, int steps, double jitter)
      : Kernel(decide_exactly(density)),
        density_(std::move(density)),
        factor_(factor.contiguous()),
        factor_t_(factor.t().contiguous()),
        step_(step_size),
        jitter_(jitter),
        steps_(steps) {}
  bool needs_gradient() const override { return true; }
  Move propose(const State& state, const ChainStreams& streams) const override {
    const int64_t n = state.x.size(0);
    const Tensor start = streams.noise.normal(n, state.x.size(1));
    const Tensor step = jitter_ == 0 ? at::full({1, 1}, step_, at::kDouble)
                                     : step_ * (1 + jitter_ * (2 * streams.accept.uniform(n).unsqueeze(1) - 1));
    Move move;
    move.x = state.x;
    Tensor momentum = start + 0.5 * step * at::matmul(state.gradient, factor_);
    for (int i = 0; i < steps_; ++i) {
      move.x = move.x + step * at::matmul(momentum, factor_t_);
      move.at = density_(move.x, true);
      momentum = momentum + (i + 1 < steps_ ? 1.0 : 0.5) * step * at::matmul(move.at.gradient, factor_);
    }
    move.log_forward = start.square().sum(-1) * -0.5;
    move.log_reverse = momentum.square().sum(-1) * -0.5;
    return move;
  }

 private:
  Density density_;
  Tensor factor_, factor_t_;
  double step_, jitter_;
  int steps_;
};

}  // namespace

std::unique_ptr<Kernel> make_hmc(Density density, const Tensor& factor, double step_size, int leapfrog_steps,
                                 double jitter) {
  return std::make_unique<Hmc>(std::move(density), factor, step_size, leapfrog_steps, jitter);
}

}  // namespace hastings
