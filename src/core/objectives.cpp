#include "hastings/core/objectives.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "hastings/core/error.h"

namespace hastings {
namespace {

// The finite weights in rising order, and where they came from.
struct Sorted {
  std::vector<int64_t> index;
  std::vector<double> weight;
};

Sorted sorted_finite(const Tensor& w) {
  const Tensor contiguous = w.contiguous();
  const double* data = contiguous.data_ptr<double>();
  Sorted out;
  for (int64_t i = 0; i < w.size(0); ++i) {
    if (std::isfinite(data[i])) out.index.push_back(i);
  }
  std::sort(out.index.begin(), out.index.end(), [&](int64_t a, int64_t b) { return data[a] < data[b]; });
  for (const int64_t i : out.index) out.weight.push_back(data[i]);
  return out;
}

// For all pairs min(1, e^{w'_j - w_i}): the mean, and the gradients with respect to w' and w. With the weights
// sorted, the sums over the pairs with w_i > w'_j follow from one-step recurrences whose exponents are <= 0.
double acceptance_of_pairs(const Sorted& candidate, const Sorted& state, double pairs, double* grad_candidate,
                           double* grad_state) {
  const size_t n = state.weight.size(), m = candidate.weight.size();
  std::vector<double> above(n + 1, 0.0);  // above[k] = sum_{i >= k} e^{w_k - w_i}
  for (size_t k = n; k-- > 0;) {
    above[k] = 1 + (k + 1 < n ? std::exp(state.weight[k] - state.weight[k + 1]) * above[k + 1] : 0.0);
  }
  double sum = 0;
  for (size_t j = 0, k = 0; j < m; ++j) {
    while (k < n && state.weight[k] <= candidate.weight[j]) ++k;
    const double tail = k < n ? std::exp(candidate.weight[j] - state.weight[k]) * above[k] : 0.0;
    sum += static_cast<double>(k) + tail;
    grad_candidate[candidate.index[j]] = tail / pairs;
  }
  double below = 0;  // sum_{j < k} e^{w'_j - w'_{k-1}}
  for (size_t i = 0, k = 0; i < n; ++i) {
    while (k < m && candidate.weight[k] < state.weight[i]) {
      below = 1 + (k > 0 ? std::exp(candidate.weight[k - 1] - candidate.weight[k]) * below : 0.0);
      ++k;
    }
    grad_state[state.index[i]] = k > 0 ? -std::exp(candidate.weight[k - 1] - state.weight[i]) * below / pairs : 0.0;
  }
  return sum / pairs;
}

double mean_of(const std::vector<double>& values) {
  return values.empty() ? 0.0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void fill(Tensor& gradient, const std::vector<int64_t>& index, double value) {
  double* data = gradient.data_ptr<double>();
  for (const int64_t i : index) data[i] = value / static_cast<double>(index.size());
}

}  // namespace

Objective parse_objective(const std::string& name) {
  if (name == "ar") return Objective::kAr;
  if (name == "arlb") return Objective::kArlb;
  if (name == "vi") return Objective::kVi;
  throw ConfigError(fmt::format("objective '{}': must be ar, arlb or vi", name));
}

std::string to_string(Objective objective) {
  switch (objective) {
    case Objective::kAr:
      return "ar";
    case Objective::kArlb:
      return "arlb";
    case Objective::kVi:
      return "vi";
  }
  return "";
}

ObjectiveValue evaluate(Objective objective, const Tensor& candidate, const Tensor& state) {
  const Sorted c = sorted_finite(candidate), s = sorted_finite(state);
  ObjectiveValue out;
  out.grad_candidate = at::zeros_like(candidate);
  out.grad_state = at::zeros_like(state);
  out.non_finite = candidate.size(0) + state.size(0) - static_cast<int64_t>(c.index.size() + s.index.size());
  const double pairs = static_cast<double>(candidate.size(0)) * static_cast<double>(s.index.size());
  out.acceptance = pairs > 0 ? acceptance_of_pairs(c, s, pairs, out.grad_candidate.data_ptr<double>(),
                                                   out.grad_state.data_ptr<double>())
                             : 0.0;
  out.symmetric_kl = mean_of(s.weight) - mean_of(c.weight);
  switch (objective) {
    case Objective::kAr:
      out.loss = -out.acceptance;
      out.grad_candidate.neg_();
      out.grad_state.neg_();
      break;
    case Objective::kArlb:
      out.loss = out.symmetric_kl;
      fill(out.grad_candidate, c.index, -1.0);
      fill(out.grad_state, s.index, 1.0);
      break;
    case Objective::kVi:
      out.loss = -mean_of(c.weight);
      fill(out.grad_candidate, c.index, -1.0);
      out.grad_state.zero_();
      break;
  }
  if (c.index.empty()) out.loss = std::numeric_limits<double>::quiet_NaN();
  return out;
}

double acceptance_lower_bound(double symmetric_kl) { return 1 - std::sqrt(std::max(symmetric_kl, 0.0) / 2); }

}  // namespace hastings
