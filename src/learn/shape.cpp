#include "hastings/learn/shape.h"

#include <ATen/ATen.h>

#include <boost/math/special_functions/gamma.hpp>
#include <cmath>
#include <span>

#include "hastings/core/moments.h"

// Radial layer: its spline carries the base's radii to those of the population, quantile by quantile.
//
// Bend layer: with the target's third derivatives at its mode it is known in closed form.
// In whitened coordinates log p = const - z.z/2 + c(z, z, z)/6 + .... For y = z + f(z) to carry N(0, I) to p, to first
// order in c, div f - z.f + c(z, z, z)/6 = 0. With f triangular, f_i takes the terms whose last coordinate is i:
//   f_i = sum_{j,k<i} c_ijk/2 z_j z_k + z_i sum_{j<i} c_iij/2 z_j + c_iii/6 z_i^2 + b_i,   b = the gradient of div f.
namespace hastings {
namespace {

constexpr double kStep = 0.1;        // of the differences, in whitened units
constexpr int64_t kChunk = 4096;     // gradients at a time
constexpr int64_t kDraws = 8192;     // that correct mean and covariance
constexpr int64_t kStates = 2048;    // that judge
constexpr double kLeastShare = 0.1;  // of effective draws below which weighted moments are not trusted

Tensor whitened(const Tensor& x, const Whitening& whitening) {
  return at::linalg_solve_triangular(whitening.factor, (x - whitening.shift).t(), /*upper=*/false).t().contiguous();
}

// Third derivatives of log p in whitened coordinates at the centre: [dim, dim, dim], symmetric.
Tensor third_derivatives(const Target& target, const Whitening& whitening) {
  const int64_t d = target.dim();
  const Tensor unit = kStep * at::eye(d, at::kDouble);
  const Tensor first = at::arange(d, at::kLong).repeat_interleave(d), second = at::arange(d, at::kLong).repeat({d});
  const Tensor a = unit.index_select(0, first), b = unit.index_select(0, second);
  Tensor sum = at::zeros({d * d, d}, at::kDouble);
  for (const double sign : {1.0, -1.0}) {
    for (const double other : {1.0, -1.0}) {
      for (int64_t begin = 0; begin < d * d; begin += kChunk) {
        const int64_t rows = std::min(kChunk, d * d - begin);
        const Tensor z = sign * a.narrow(0, begin, rows) + other * b.narrow(0, begin, rows);
        const Tensor x = at::addmm(whitening.shift, z, whitening.factor.t());
        const Tensor g = at::matmul(target.with_gradient(x).gradient, whitening.factor);
        sum.narrow(0, begin, rows).add_(g, sign * other);
      }
    }
  }
  const Tensor c = (sum / (4 * kStep * kStep)).view({d, d, d});
  return (c + c.permute({1, 2, 0}) + c.permute({2, 0, 1})) / 3;  // c_jk,i is symmetric in j and k already
}

// Finds the parameters of one kind of layer by name, wherever in the flow it stands.
class Editor {
 public:
  explicit Editor(FlowProposal& flow) : flow_(flow), values_(flow.parameters()) {}
  std::span<double> find(const std::string& name) {
    for (const auto& slot : flow_.slots()) {
      if (slot.name.ends_with("." + name)) return {values_.data() + slot.offset, static_cast<size_t>(slot.size)};
    }
    return {};
  }
  void apply() { flow_.set_parameters(values_); }

 private:
  FlowProposal& flow_;
  std::vector<double> values_;
};

void set_bend(FlowProposal& flow, const Tensor& third) {
  Editor edit(flow);
  const auto skew = edit.find("bend.skew"), shift = edit.find("affine.shift");
  double *slope = edit.find("bend.slope").data(), *square = edit.find("bend.square").data();
  const int64_t d = third.size(0);
  const Tensor contiguous = third.contiguous();
  auto c = [data = contiguous.data_ptr<double>(), d](size_t i, size_t j, size_t k) {
    return data[(static_cast<int64_t>(i) * d + static_cast<int64_t>(j)) * d + static_cast<int64_t>(k)];
  };
  for (size_t i = 0; i < skew.size(); ++i) {
    skew[i] = c(i, i, i) / 3;  // u(z) = z + skew z^2 / 2 + ...
    shift[i] += c(i, i, i) / 3;
    for (size_t j = 0; j < i; ++j) {
      *slope++ = c(i, i, j) / 2;
      shift[j] += c(i, i, j) / 2;
    }
    for (size_t j = 0; j < i; ++j) {
      for (size_t k = 0; k <= j; ++k) *square++ = j == k ? c(i, j, j) / 2 : c(i, j, k);
    }
  }
  edit.apply();
}

// Knots at the base's quantiles k/K and at the population's; the last bin reaches to the end of the spline.
void set_radial(FlowProposal& flow, const Tensor& whitened) {
  Editor edit(flow);
  const auto raw = edit.find("radial.raw");
  const size_t bins = (raw.size() + 1) / 3;
  const auto d = static_cast<double>(whitened.size(1));
  const double reach = 2 * radial_bound(whitened.size(1)), floor = 2e-4 * reach;
  const Tensor sorted = std::get<0>(whitened.norm(2, 1).sort());
  const double* radius = sorted.data_ptr<double>();
  const auto n = static_cast<double>(sorted.size(0));
  std::vector<double> x = {0.0}, y = {0.0};
  for (size_t k = 1; k < bins; ++k) {
    const double p = static_cast<double>(k) / static_cast<double>(bins);
    x.push_back(std::sqrt(2 * boost::math::gamma_p_inv(d / 2, p)));
    y.push_back(std::max(radius[static_cast<size_t>(p * n)], y.back() + floor));
  }
  x.push_back(reach);
  y.push_back(reach);
  if (y[bins - 1] > reach - floor) return;  // points beyond the spline: nothing to match there
  std::vector<double> secant(bins);
  for (size_t k = 0; k < bins; ++k) {
    secant[k] = (y[k + 1] - y[k]) / (x[k + 1] - x[k]);
    raw[k] = std::log(x[k + 1] - x[k]);
    raw[bins + k] = std::log(y[k + 1] - y[k]);
  }
  for (size_t k = 0; k + 1 < bins; ++k) raw[2 * bins + k] = spline_raw_slope(std::sqrt(secant[k] * secant[k + 1]));
  edit.apply();
}

// The last layer moves so that mean and covariance of the draws become those of the weighted draws.
void correct_moments(const Target& target, const Whitening& whitening, FlowProposal& flow, Stream& stream) {
  const Draws draws = flow.sample(kDraws, stream);
  const Tensor log_weight = target.log_prob(draws.x) - draws.log_q;
  const Tensor weight =
      at::softmax(at::where(at::isfinite(log_weight), log_weight, at::full_like(log_weight, -1e300)), 0);
  if (1 / weight.square().sum().item<double>() < kLeastShare * static_cast<double>(kDraws)) return;
  const Tensor h = whitened(draws.x, whitening);
  const Moments have = moments(h), want = moments(h, weight);
  // h -> want.mean + K (h - have.mean), after the layer's own h = L y + b.
  const Tensor k = at::linalg_solve_triangular(have.factor, want.factor, /*upper=*/false, /*left=*/false);
  Editor edit(flow);
  const auto shift = edit.find("affine.shift"), diagonal = edit.find("affine.log_diagonal"),
             lower = edit.find("affine.lower");
  const int64_t d = target.dim();
  Tensor l = at::zeros({d, d}, at::kDouble), b = at::empty({d}, at::kDouble);
  auto at = [](int64_t i) { return static_cast<size_t>(i); };
  for (int64_t i = 0; i < d; ++i) {
    b[i] = shift[at(i)];
    l[i][i] = std::exp(diagonal[at(i)]);
    for (int64_t j = 0; j < i; ++j) l[i][j] = lower[at(i * d + j)];
  }
  l = at::matmul(k, l).contiguous();
  b = (want.mean + at::mv(k, b - have.mean)).contiguous();
  for (int64_t i = 0; i < d; ++i) {
    shift[at(i)] = b[i].item<double>();
    diagonal[at(i)] = std::log(l[i][i].item<double>());
    for (int64_t j = 0; j < i; ++j) lower[at(i * d + j)] = l[i][j].item<double>();
  }
  edit.apply();
}

}  // namespace

double shape_start(const Target& target, const Whitening& whitening, FlowProposal& flow, const Population& states,
                   uint64_t seed) {
  const at::NoGradGuard no_grad;
  Stream stream(seed, Phase::kShape, 0, Purpose::kProposal);
  const int64_t n = std::min(kStates, states.x.size(0));
  auto acceptance = [&] {
    return overlap(target, flow.sample(n, stream), states.log_prob.narrow(0, 0, n),
                   flow.log_prob(states.x.narrow(0, 0, n)));
  };
  double best = acceptance();
  std::vector<double> kept = flow.parameters();
  auto keep_if_better = [&] {
    const double now = acceptance();
    if (now > best) {
      best = now;
      kept = flow.parameters();
    } else {
      flow.set_parameters(kept);
    }
  };
  Editor layers(flow);
  if (!layers.find("radial.raw").empty()) {
    set_radial(flow, whitened(states.x, whitening));
    keep_if_better();
  }
  if (!layers.find("bend.skew").empty()) {
    const Tensor third = third_derivatives(target, whitening);
    if (at::isfinite(third).all().item<bool>()) {
      set_bend(flow, third);
      keep_if_better();
    }
  }
  correct_moments(target, whitening, flow, stream);
  keep_if_better();
  return best;
}

}  // namespace hastings
