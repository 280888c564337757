#include "hastings/chain/kernel.h"

#include <ATen/ATen.h>

#include <cmath>

#include "hastings/core/accept.h"

namespace hastings {
namespace {

class ExactDecision final : public Decision {
 public:
  explicit ExactDecision(Density density) : density_(std::move(density)) {}

  // A state that is impossible or broken is left for any finite candidate.
  void prepare(State& state, bool with_gradient) const override {
    const Evaluated at = density_(state.x, with_gradient);
    state.log_prob = at::where(at::isfinite(at.log_prob), at.log_prob, at::full_like(at.log_prob, -HUGE_VAL));
    state.gradient = at.gradient;
  }

  Info decide(State& state, const Move& move, RowStreams uniforms) const override {
    const Evaluated at = move.at.log_prob.defined() ? move.at : density_(move.x, state.gradient.defined());
    Tensor candidate = at.log_prob;
    if (move.log_reverse.defined()) candidate = candidate + move.log_reverse;
    if (move.log_forward.defined()) candidate = candidate - move.log_forward;
    const Tensor r = log_ratio(candidate, state.log_prob);
    Info info;
    info.accepted = accept_mask(uniforms.uniform(r.size(0)).log(), r);
    info.accept_prob = r.clamp_max(0).exp().nan_to_num(0);
    info.non_finite = at::logical_not(at::isfinite(candidate)).sum().item<int64_t>();
    state.x = replaced(info.accepted, move.x, state.x);
    state.log_prob = replaced(info.accepted, at.log_prob, state.log_prob);
    if (at.gradient.defined() && state.gradient.defined())
      state.gradient = replaced(info.accepted, at.gradient, state.gradient);
    return info;
  }

 private:
  Density density_;
};

}  // namespace

Tensor replaced(const Tensor& accepted, const Tensor& candidate, const Tensor& state) {
  std::vector<int64_t> shape(static_cast<size_t>(state.dim()), 1);
  shape[0] = accepted.size(0);
  return at::where(accepted.view(shape), candidate, state);
}

Density density_of(const Target& target) {
  return [&target](const Tensor& x, bool with_gradient) {
    if (!with_gradient) {
      const at::NoGradGuard no_grad;
      return Evaluated{target.log_prob(x), {}};
    }
    const Gradient g = target.with_gradient(x);
    return Evaluated{g.log_prob, g.gradient};
  };
}

std::shared_ptr<const Decision> decide_exactly(Density density) {
  return std::make_shared<ExactDecision>(std::move(density));
}

State Kernel::init(const Tensor& x) const {
  State state;
  state.x = x;
  decision_->prepare(state, needs_gradient());
  return state;
}

Info Kernel::decide(State& state, const Move& move, const ChainStreams& streams) const {
  const Info info = decision_->decide(state, move, streams.accept);
  settle(state, move, info);
  return info;
}

Info Kernel::step(State& state, const ChainStreams& streams) const {
  return decide(state, propose(state, streams), streams);
}

}  // namespace hastings
