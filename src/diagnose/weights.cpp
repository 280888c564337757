#include "hastings/diagnose/weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace hastings {
namespace {

const double kInfinity = std::numeric_limits<double>::infinity();

// Shape of a generalised Pareto distribution with location 0, from sorted excesses.
double gpd_shape(const std::vector<double>& x) {
  constexpr double kPrior = 3, kPriorShape = 10;
  const size_t n = x.size();
  const auto count = static_cast<double>(n);
  const size_t m = 30 + static_cast<size_t>(std::sqrt(count));
  const double quartile = x[static_cast<size_t>(count / 4 + 0.5) - 1];
  std::vector<double> b(m), k(m), score(m);
  for (size_t j = 0; j < m; ++j) {
    b[j] =
        (1 - std::sqrt(static_cast<double>(m) / (static_cast<double>(j) + 0.5))) / (kPrior * quartile) + 1 / x[n - 1];
    double sum = 0;
    for (const double value : x) sum += std::log1p(-b[j] * value);
    k[j] = sum / count;
    score[j] = count * (std::log(-(b[j] / k[j])) - k[j] - 1);
  }
  double weighted = 0, total = 0;
  for (size_t j = 0; j < m; ++j) {
    double inverse = 0;
    for (size_t i = 0; i < m; ++i) inverse += std::exp(score[i] - score[j]);
    const double weight = 1 / inverse;
    if (weight < 10 * std::numeric_limits<double>::epsilon()) continue;
    weighted += weight * b[j];
    total += weight;
  }
  const double b_post = weighted / total;
  double sum = 0;
  for (const double value : x) sum += std::log1p(-b_post * value);
  const double shape = sum / count;
  return (shape * count + kPriorShape * 0.5) / (count + kPriorShape);
}

}  // namespace

Evidence log_evidence(std::span<const double> log_weights) {
  double top = -kInfinity;
  for (const double w : log_weights) {
    if (std::isfinite(w)) top = std::max(top, w);
  }
  const auto n = static_cast<double>(log_weights.size());
  if (!std::isfinite(top)) return {-kInfinity, kInfinity, 0};
  double sum = 0, square = 0;
  for (const double w : log_weights) {
    if (!std::isfinite(w)) continue;
    const double e = std::exp(w - top);
    sum += e;
    square += e * e;
  }
  const double mean = sum / n, variance = std::max(square / n - mean * mean, 0.0);
  return {top + std::log(mean), std::sqrt(variance / n) / mean, sum * sum / (n * square)};
}

double symmetric_kl(std::span<const double> log_weights) {
  double top = -kInfinity;
  for (const double w : log_weights) top = std::isfinite(w) ? std::max(top, w) : top;
  double weight = 0, weighted = 0, plain = 0, count = 0;
  for (const double w : log_weights) {
    if (!std::isfinite(w)) continue;
    const double v = std::exp(w - top);
    weight += v;
    weighted += v * w;
    plain += w;
    count += 1;
  }
  return count > 0 ? weighted / weight - plain / count : kInfinity;
}

double pareto_k(std::span<const double> log_weights) {
  std::vector<double> w;
  for (const double value : log_weights) w.push_back(std::isfinite(value) ? value : -kInfinity);
  std::sort(w.begin(), w.end());
  const auto n = static_cast<double>(w.size());
  const auto tail = static_cast<size_t>(std::ceil(std::min(n / 5, 3 * std::sqrt(n))));
  if (tail < 5 || w.size() <= tail) return kInfinity;
  const double top = w.back(),
               cut = std::max(w[w.size() - tail - 1] - top, std::log(std::numeric_limits<double>::min()));
  std::vector<double> excess;
  for (size_t i = w.size() - tail; i < w.size(); ++i) {
    if (w[i] - top > cut) excess.push_back(std::exp(w[i] - top) - std::exp(cut));
  }
  if (excess.size() < 5) return -kInfinity;
  return gpd_shape(excess);
}

}  // namespace hastings
