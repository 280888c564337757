#include "hastings/chain/mala.h"

#include <ATen/ATen.h>

namespace hastings {
namespace {

// In z units: forward noise z, reverse noise z' = L^-1 (x - x' - (e^2/2) C grad') / e; the log densities differ by
// (|z|^2 - |z'|^2) / 2.
class Mala final : public Kernel {
 public:
  Mala(Density density, const Tensor& factor, double step_size)
      : Kernel(decide_exactly(density)),
        density_(std::move(density)),
        factor_t_(factor.t().contiguous()),
        inverse_t_(at::linalg_solve_triangular(factor, at::eye(factor.size(0), at::kDouble), /*upper=*/false)
                       .t()
                       .contiguous()),
        step_(step_size) {}
  bool needs_gradient() const override { return true; }
  Move propose(const State& state, const ChainStreams& streams) const override {
    const Tensor z = streams.noise.normal(state.x.size(0), state.x.size(1));
    const Tensor x = mean(state.x, state.gradient) + step_ * at::matmul(z, factor_t_);
    const Evaluated at_x = density_(x, true);
    const Tensor back = at::matmul(state.x - mean(x, at_x.gradient), inverse_t_) / step_;
    return {x, at_x, z.square().sum(-1) * -0.5, back.square().sum(-1) * -0.5};
  }

 private:
  Tensor mean(const Tensor& x, const Tensor& gradient) const {
    return x + (0.5 * step_ * step_) * at::matmul(at::matmul(gradient, factor_t_.t()), factor_t_);
  }
  Density density_;
  Tensor factor_t_, inverse_t_;
  double step_;
};

}  // namespace

std::unique_ptr<Kernel> make_mala(Density density, const Tensor& factor, double step_size) {
  return std::make_unique<Mala>(std::move(density), factor, step_size);
}

}  // namespace hastings
