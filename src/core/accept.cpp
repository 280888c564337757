#include "hastings/core/accept.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace hastings {

void scan(std::span<const double> log_weight, std::span<const double> log_u, ScanState& state, ScanInfo& info,
          std::span<int64_t> held, std::span<double> stat) {
  const size_t n = log_weight.size();
  int64_t at = -1;
  for (size_t i = 0; i < n; ++i) {
    const double r = log_ratio(log_weight[i], state.log_weight);
    if (!std::isfinite(log_weight[i])) ++info.non_finite;
    stat[i] = r;
    if (accept(log_u[i], r)) {
      info.longest_run = std::max(info.longest_run, state.run);
      state.log_weight = log_weight[i];
      state.run = 1;
      at = static_cast<int64_t>(i);
      ++info.accepted;
    } else {
      ++state.run;
    }
    held[i] = at;
  }
  info.longest_run = std::max(info.longest_run, state.run);
  // The exponentials outside the sequential loop. r = NaN cannot occur: see log_ratio(). Added to the sum one by one:
  // so it is the same to the last bit however the candidates are cut into batches.
  for (size_t i = 0; i < n; ++i) {
    stat[i] = stat[i] >= 0 ? 1.0 : std::exp(stat[i]);
    info.acceptance_sum += stat[i];
  }
}

Tensor accept_mask(const Tensor& log_u, const Tensor& log_ratio) { return at::lt(log_u, log_ratio); }

Tensor log_ratio(const Tensor& candidate_weight, const Tensor& state_weight) {
  const Tensor r = candidate_weight - state_weight;
  return at::where(at::isfinite(candidate_weight), r, at::full_like(r, -std::numeric_limits<double>::infinity()));
}

}  // namespace hastings
