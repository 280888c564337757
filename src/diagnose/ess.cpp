#include "hastings/diagnose/ess.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <boost/math/special_functions/beta.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "../core/lanes.h"

namespace hastings {
namespace {

const double kNaN = std::numeric_limits<double>::quiet_NaN();

// Each chain cut in two halves; the middle draw of an odd number is left out.
Tensor split_chains(const Tensor& draws) {
  const int64_t half = draws.size(1) / 2;
  return at::cat({draws.narrow(1, 0, half), draws.narrow(1, draws.size(1) - half, half)}, 0).contiguous();
}

// Normal scores of the ranks over all draws, ties at their average rank.
Tensor rank_normalised(const Tensor& draws) {
  struct Entry {
    double value;
    int64_t at;
  };
  const Tensor flat = draws.contiguous().view({-1});
  const int64_t n = flat.size(0);
  const double* x = flat.data_ptr<double>();
  std::vector<Entry> order(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) order[static_cast<size_t>(i)] = {x[i], i};
  std::sort(order.begin(), order.end(), [](const Entry& a, const Entry& b) { return a.value < b.value; });
  Tensor score = at::empty({n}, at::kDouble);
  double* r = score.data_ptr<double>();
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && order[end].value == order[begin].value) ++end;
    const double average = 0.5 * static_cast<double>(begin + end + 1);
    for (size_t i = begin; i < end; ++i) r[order[i].at] = average;
    begin = end;
  }
  score.sub_(0.375).div_(static_cast<double>(n) + 0.25);
  return at::special_ndtri_out(score, score).view(draws.sizes());
}

bool usable(const Tensor& draws) { return draws.size(1) >= 4 && at::isfinite(draws).all().item<bool>(); }

double split_rhat(const Tensor& chains) {
  const auto n = static_cast<double>(chains.size(1));
  const double between = n * chains.mean(1).var(0, true).item<double>();
  const double within = chains.var(1, true).mean().item<double>();
  return std::sqrt((between / within + n - 1) / n);
}

// Autocovariances averaged over the chains, as they are asked for: lag by lag while there are few, all by one transform
// of each chain when there are many. Nearly independent draws need only the first.
class MeanAutocovariance {
 public:
  explicit MeanAutocovariance(const Tensor& chains) : centred_((chains - chains.mean(1, true)).contiguous()) {}
  double operator[](int64_t lag) {
    if (lag >= kFew && !all_.defined()) {
      all_ = autocovariance(centred_[0]);
      for (int64_t c = 1; c < centred_.size(0); ++c) all_ += autocovariance(centred_[c]);
      all_ /= static_cast<double>(centred_.size(0));
    }
    if (lag >= kFew) return all_.data_ptr<double>()[lag];
    const int64_t m = centred_.size(0), n = centred_.size(1);
    double sum = 0;
    for (int64_t c = 0; c < m; ++c) {
      const double* x = centred_.data_ptr<double>() + c * n;
      sum += Lanes<double>::dot(x, x + lag, n - lag);
    }
    return sum / static_cast<double>(m * n);
  }

 private:
  static constexpr int64_t kFew = 32;
  Tensor centred_, all_;
};

// Geyer's initial monotone sequence on the combined autocorrelation of several chains.
double ess_of(const Tensor& chains) {
  const int64_t m = chains.size(0), n = chains.size(1);
  if (!usable(chains)) return kNaN;
  const double spread = chains.max().item<double>() - chains.min().item<double>();
  if (spread < std::numeric_limits<double>::epsilon()) return static_cast<double>(m * n);
  MeanAutocovariance acov(chains);
  const double mean_var = acov[0] * static_cast<double>(n) / static_cast<double>(n - 1);
  double var_plus = mean_var * static_cast<double>(n - 1) / static_cast<double>(n);
  if (m > 1) var_plus += chains.mean(1).var(0, true).item<double>();
  auto rho_at = [&](int64_t t) { return 1.0 - (mean_var - acov[t]) / var_plus; };
  std::vector<double> rho(2, 0.0);
  double even = 1.0, odd = rho_at(1);
  rho[0] = even;
  rho[1] = odd;
  int64_t t = 1;
  while (t < n - 3 && even + odd > 0) {
    even = rho_at(t + 1);
    odd = rho_at(t + 2);
    const bool positive = even + odd >= 0;
    rho.push_back(positive ? even : 0.0);
    rho.push_back(positive ? odd : 0.0);
    t += 2;
  }
  const int64_t last = t - 2;
  if (even > 0) rho[static_cast<size_t>(last + 1)] = even;
  for (t = 1; t <= last - 2; t += 2) {
    const auto i = static_cast<size_t>(t);
    if (rho[i + 1] + rho[i + 2] > rho[i - 1] + rho[i]) rho[i + 1] = rho[i + 2] = (rho[i - 1] + rho[i]) / 2;
  }
  const auto total = static_cast<double>(m * n);
  double sum = 0;
  for (int64_t i = 0; i <= last; ++i) sum += rho[static_cast<size_t>(i)];
  double tau = -1 + 2 * sum + rho[static_cast<size_t>(last + 1)];
  tau = std::max(tau, 1 / std::log10(total));
  return total / tau;
}

}  // namespace

Tensor autocovariance(const Tensor& x) {
  const int64_t n = x.size(0);
  int64_t padded = 1;
  while (padded < 2 * n) padded *= 2;
  const Tensor spectrum = at::fft_rfft(x - x.mean(), padded);
  return at::fft_irfft(spectrum * spectrum.conj(), padded).narrow(0, 0, n) / static_cast<double>(n);
}

double paper_ess(const Tensor& draws, double mean, double sd) {
  const int64_t n = draws.size(1);
  const Tensor x = ((draws - mean) / sd).contiguous();
  double sum = 0;
  for (int64_t s = 1; s < n; ++s) {
    const Tensor products = x.narrow(1, s, n - s) * x.narrow(1, 0, n - s);
    const double rho = products.mean().item<double>();
    if (!(rho > 0.05)) break;
    sum += (1 - static_cast<double>(s) / static_cast<double>(n)) * rho;
  }
  return static_cast<double>(n) / (1 + 2 * sum);
}

double rhat(const Tensor& draws) {
  if (!usable(draws)) return kNaN;
  const Tensor split = split_chains(draws);
  const double bulk = split_rhat(rank_normalised(split));
  const double folded = split_rhat(rank_normalised((split - sample_quantile(split, 0.5)).abs()));
  return std::max(bulk, folded);
}

double bulk_ess(const Tensor& draws) { return usable(draws) ? ess_of(rank_normalised(split_chains(draws))) : kNaN; }

double least_bulk_ess(const Tensor& statistics) {
  double least = std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < statistics.size(2); ++j) {
    const double ess = bulk_ess(statistics.select(2, j).contiguous());
    if (!(ess >= least)) least = ess;  // NaN stays
    if (std::isnan(least)) break;
  }
  return least;
}

double quantile_ess(const Tensor& draws, double probability) {
  if (!usable(draws)) return kNaN;
  const double q = sample_quantile(draws, probability);
  return ess_of(split_chains(at::le(draws, q).to(at::kDouble)));
}

double tail_ess(const Tensor& draws) { return std::min(quantile_ess(draws, 0.05), quantile_ess(draws, 0.95)); }

double mean_ess(const Tensor& draws) { return usable(draws) ? ess_of(split_chains(draws)) : kNaN; }

double sd_ess(const Tensor& draws) {
  return usable(draws) ? ess_of(split_chains((draws - draws.mean()).square())) : kNaN;
}

double mcse_mean(const Tensor& draws) { return draws.std(true).item<double>() / std::sqrt(mean_ess(draws)); }

// From the variance of the squared deviations, by the delta method.
double mcse_sd(const Tensor& draws) {
  const Tensor square = (draws - draws.mean()).square();
  const double variance = square.mean().item<double>();
  const double spread = square.square().mean().item<double>() - variance * variance;
  return std::sqrt(spread / sd_ess(draws) / variance / 4);
}

double mcse_quantile(const Tensor& draws, double probability) {
  if (!usable(draws)) return kNaN;
  const double ess = quantile_ess(draws, probability);
  const double a = ess * probability + 1, b = ess * (1 - probability) + 1;
  const double lower = boost::math::ibeta_inv(a, b, 0.1586553), upper = boost::math::ibeta_inv(a, b, 0.8413447);
  const Tensor sorted = std::get<0>(draws.contiguous().view({-1}).sort());
  const int64_t n = sorted.size(0);
  const auto count = static_cast<double>(n);
  const auto low = static_cast<int64_t>(std::floor(std::max(lower * count - 1, 0.0)));
  const auto high = static_cast<int64_t>(std::ceil(std::min(upper * count - 1, count - 1)));
  return (sorted[high].item<double>() - sorted[low].item<double>()) / 2;
}

double sample_quantile(const Tensor& draws, double probability) {
  const Tensor flat = draws.contiguous();
  std::vector<double> x(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
  const double at = probability * static_cast<double>(x.size() - 1);
  const auto below = static_cast<std::ptrdiff_t>(std::floor(at));
  std::nth_element(x.begin(), x.begin() + below, x.end());
  const double low = x[static_cast<size_t>(below)];
  if (static_cast<size_t>(below) + 1 == x.size()) return low;
  const double high = *std::min_element(x.begin() + below + 1, x.end());
  return low + (at - static_cast<double>(below)) * (high - low);
}

}  // namespace hastings
