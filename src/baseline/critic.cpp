#include "hastings/baseline/critic.h"

#include <ATen/ATen.h>

#include <cmath>

namespace hastings {
namespace {

constexpr double kLeak = 0.2;

}  // namespace

Critic::Critic(uint64_t seed, int64_t in, const std::vector<int64_t>& hidden) : layers_(hidden.size() + 1) {
  Stream stream(seed, Phase::kAniceCritic, 0, Purpose::kWeights);
  int64_t from = in;
  for (size_t k = 0; k < layers_; ++k) {  // Glorot and Bengio 2010
    const int64_t to = k < hidden.size() ? hidden[k] : 1;
    const double scale = std::sqrt(2.0 / static_cast<double>(from + to));
    parameters_.push_back((stream.normal({from, to}) * scale).to(at::kFloat));
    parameters_.push_back(at::zeros({to}, at::kFloat));
    from = to;
  }
}

Critic::Passes Critic::passes(const Tensor& x) const {
  Passes out;
  out.input.push_back(x);
  for (size_t k = 0; k + 1 < layers_; ++k) {
    const Tensor z = at::addmm(bias(k), out.input[k], weight(k));
    out.kink.push_back(at::gt(z, 0).to(at::kFloat).mul_(1 - kLeak).add_(kLeak));
    out.input.push_back(z * out.kink[k]);
  }
  out.score = at::addmm(bias(layers_ - 1), out.input.back(), weight(layers_ - 1)).squeeze(1);
  out.back.resize(layers_);
  out.back[layers_ - 1] = at::ones({x.size(0), 1}, at::kFloat);
  for (size_t k = layers_ - 1; k-- > 0;) out.back[k] = at::mm(out.back[k + 1], weight(k + 1).t()).mul_(out.kink[k]);
  return out;
}

Tensor Critic::slope(const Tensor& x) const {
  const at::NoGradGuard no_grad;
  return at::mm(passes(x).back[0], weight(0).t());
}

Critic::Loss Critic::loss(const Tensor& fake, const Tensor& real, const Tensor& between, double penalty) const {
  const at::NoGradGuard no_grad;
  const int64_t scored = fake.size(0) + real.size(0), rows = between.size(0);
  const Passes p = passes(at::cat({fake, real, between}, 0));
  const Tensor share = at::cat({at::full({fake.size(0), 1}, 1.0 / static_cast<double>(fake.size(0)), at::kFloat),
                                at::full({real.size(0), 1}, -1.0 / static_cast<double>(real.size(0)), at::kFloat)},
                               0);
  const Tensor slopes = at::mm(p.back[0].narrow(0, scored, rows), weight(0).t());
  const Tensor length = slopes.square().sum(1, true).add_(1e-12).sqrt();
  Loss out;
  out.value = (p.score.narrow(0, 0, scored) * share.squeeze(1)).sum().item<double>() +
              penalty * (length - 1).square().mean().item<double>();
  // d penalty / d slope, then forwards through the network without its biases. Of a scored row, layer k's weight has
  // the gradient input_k^T share back_k; of a row of the penalty, tangent_k^T back_k: one product for both.
  Tensor tangent = slopes * ((length - 1) / length) * (2 * penalty / static_cast<double>(rows));
  for (size_t k = 0; k < layers_; ++k) {
    const Tensor with = at::cat({p.input[k].narrow(0, 0, scored) * share, tangent}, 0);
    out.gradient.push_back(at::mm(with.t(), p.back[k]));
    out.gradient.push_back(at::mm(share.t(), p.back[k].narrow(0, 0, scored)).squeeze(0));
    if (k + 1 < layers_) tangent = at::mm(tangent, weight(k)).mul_(p.kink[k].narrow(0, scored, rows));
  }
  return out;
}

}  // namespace hastings
