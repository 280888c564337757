#include "hastings/explore/modes.h"

#include <ATen/ATen.h>

#include <cmath>

#include "hastings/core/moments.h"
#include "hastings/explore/climb.h"

namespace hastings {
namespace {

// Negative Hessian at each row, by central differences of the gradient: [n, dim, dim].
Tensor curvature(const Target& target, const Tensor& at_points) {
  const int64_t n = at_points.size(0), d = at_points.size(1);
  const Tensor step = 1e-5 * at_points.abs().clamp_min(1.0);  // [n, d]
  const Tensor moves = at::diag_embed(step);                  // [n, d, d]
  const Tensor points = at::cat({at_points.unsqueeze(1) + moves, at_points.unsqueeze(1) - moves}, 1).reshape({-1, d});
  const Tensor g = target.with_gradient(points).gradient.view({n, 2 * d, d});
  const Tensor h = -(g.narrow(1, 0, d) - g.narrow(1, d, d)) / (2 * step.unsqueeze(2));
  return 0.5 * (h + h.transpose(1, 2));
}

// The Gaussian of each mode, or nothing where the curvature is not that of a peak.
std::optional<GaussianMixture> laplace_mixture(const Target& target, const Tensor& modes, const Tensor& log_prob) {
  const Tensor precision = curvature(target, modes);
  std::vector<Tensor> means, factors, weights;
  for (int64_t k = 0; k < modes.size(0); ++k) {
    if (!at::isfinite(precision[k]).all().item<bool>()) continue;
    const auto [eigenvalues, vectors] = at::linalg_eigh(precision[k]);
    const double least = eigenvalues.min().item<double>(), most = eigenvalues.max().item<double>();
    if (!(least > 1e-9 * most) || !(most > 0)) continue;
    const Tensor covariance = at::matmul(vectors / eigenvalues, vectors.t());
    const auto [factor, info] = at::linalg_cholesky_ex(0.5 * (covariance + covariance.t()));
    if (info.item<int>() != 0) continue;
    means.push_back(modes[k]);
    factors.push_back(factor);
    weights.push_back(log_prob[k] + factor.diagonal().log().sum());
  }
  if (means.empty()) return std::nullopt;
  return GaussianMixture{at::log_softmax(at::stack(weights), 0), at::stack(means), at::stack(factors)};
}

// Distinct end points of the climbs, best first. Two ends are one mode when they are closer than a tenth of the mode's
// own width in every direction: |x - m| in units of the curvature at m.
struct Modes {
  Tensor x, log_prob;
};
Modes distinct_modes(const Target& target, const Tensor& ends) {
  const at::NoGradGuard no_grad;
  const Tensor value = target.log_prob(ends);
  const Tensor order = value.nan_to_num(-1e300).argsort(0, true);
  std::vector<Tensor> kept, kept_value, precision;
  for (int64_t i = 0; i < order.size(0); ++i) {
    const int64_t row = order[i].item<int64_t>();
    if (!std::isfinite(value[row].item<double>())) continue;
    bool fresh = true;
    for (size_t k = 0; k < kept.size() && fresh; ++k) {
      const Tensor apart = ends[row] - kept[k];
      const double distance = at::dot(apart, at::mv(precision[k], apart)).item<double>();
      const double near = at::dot(apart, apart).item<double>();
      fresh = !(std::fabs(distance) < 0.01 && (distance > 0 || near == 0));
    }
    if (!fresh) continue;
    kept.push_back(ends[row]);
    kept_value.push_back(value[row]);
    precision.push_back(curvature(target, ends[row].unsqueeze(0))[0]);
    if (static_cast<int64_t>(kept.size()) > kMaxModes) break;
  }
  if (kept.empty()) return {};
  return {at::stack(kept), at::stack(kept_value)};
}

}  // namespace

GaussianMixture moment_fit(const Tensor& x) {
  const Moments m = moments(x);
  return {at::zeros({1}, at::kDouble), m.mean.unsqueeze(0), m.factor.unsqueeze(0)};
}

GaussianMixture refined(GaussianMixture mixture, const Tensor& x) {
  for (int step = 0; step < 10; ++step) {
    const Tensor responsibility = at::softmax(mixture.log_joint(x), 1);  // [n, k]
    const Tensor mass = responsibility.sum(0);
    if ((mass < 2.0 * static_cast<double>(x.size(1)) + 2).any().item<bool>()) break;
    std::vector<Tensor> factors;
    const Tensor means = at::matmul(responsibility.t(), x) / mass.unsqueeze(1);
    for (int64_t k = 0; k < mixture.components(); ++k) {
      const Tensor centred = x - means[k];
      const Tensor covariance = at::matmul((centred * responsibility.select(1, k).unsqueeze(1)).t(), centred) / mass[k];
      const auto [factor, info] = at::linalg_cholesky_ex(covariance);
      if (info.item<int>() != 0) return mixture;
      factors.push_back(factor);
    }
    mixture = {(mass / mass.sum()).log(), means, at::stack(factors)};
  }
  return mixture;
}

ModeSearch search_modes(const Target& target, const Tensor& from) {
  const Modes modes = distinct_modes(target, climb(target, from));
  if (!modes.x.defined()) return {};
  ModeSearch out;
  out.found = modes.x.size(0);
  if (out.found <= kMaxModes) out.mixture = laplace_mixture(target, modes.x, modes.log_prob);
  return out;
}

}  // namespace hastings
