#include "hastings/gan/calibrate/quality.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "../numbers.h"
#include "logistic_regression.h"

namespace hastings {
namespace {

constexpr size_t kBins = 15;  // of the reliability curve

double log1p_exp(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

using Labelled = std::vector<std::pair<double, bool>>;  // log ratio, is real; rising

Labelled sorted(const std::vector<double>& real, const std::vector<double>& fake) {
  Labelled all;
  for (const double s : real) all.emplace_back(s, true);
  for (const double s : fake) all.emplace_back(s, false);
  std::sort(all.begin(), all.end());
  return all;
}

// Means over both classes, each weighing the same.
void add_means(const std::vector<double>& real, const std::vector<double>& fake, CalibrationQuality& q) {
  const auto n = static_cast<double>(real.size()), m = static_cast<double>(fake.size());
  double squares_real = 0, squares_fake = 0, loss_real = 0, loss_fake = 0, right = 0, surplus = 0, variance = 0;
  for (const double s : real) {
    const double loss = log1p_exp(-s), d = sigmoid(s);
    loss_real += loss / n;
    squares_real += loss * loss / n;
    right += s > 0 ? 0.5 / n : 0;
    surplus += (1 - d);
    variance += d * (1 - d);
    q.odds_real += std::exp(-s) / n;
  }
  double weights = 0, weight_squares = 0;
  const double top = *std::max_element(fake.begin(), fake.end());
  for (const double s : fake) {
    const double loss = log1p_exp(s), d = sigmoid(s), w = std::exp(s - top);
    loss_fake += loss / m;
    squares_fake += loss * loss / m;
    right += s < 0 ? 0.5 / m : 0;
    surplus -= d * n / m;
    variance += d * (1 - d) * (n / m) * (n / m);
    q.odds_fake += std::exp(s) / m;
    weights += w;
    weight_squares += w * w;
  }
  q.log_loss = 0.5 * (loss_real + loss_fake);
  q.log_loss_error =
      0.5 * std::sqrt((squares_real - loss_real * loss_real) / n + (squares_fake - loss_fake * loss_fake) / m);
  q.accuracy = right;
  q.z = surplus / std::sqrt(std::max(variance, 1e-300));
  q.weight_ess = weights * weights / weight_squares / m;
}

// Area under the curve by ranks, ties counted half.
double area(const Labelled& all, double n, double m) {
  double rank_sum = 0;
  for (size_t i = 0; i < all.size();) {
    size_t j = i, reals = 0;
    for (; j < all.size() && all[j].first == all[i].first; ++j) reals += all[j].second ? 1 : 0;
    rank_sum += static_cast<double>(reals) * (static_cast<double>(i + j + 1) / 2);
    i = j;
  }
  return (rank_sum - n * (n + 1) / 2) / (n * m);
}

double regression_slope(const Tensor& real, const Tensor& fake) {
  const Tensor scores = at::cat({real, fake}).to(at::kDouble);
  const double spread = std::max(scores.std().item<double>(), 1e-12);
  const Tensor slope = logistic_regression((scores / spread).unsqueeze(1), real.size(0), 1e4, 1);
  return slope[0].item<double>() / spread;
}

// Predicted and observed shares of real ones, generated weighing as much as real.
void add_curve(const Labelled& all, double balance, CalibrationQuality& q) {
  for (size_t bin = 0; bin < kBins; ++bin) {
    const size_t from = bin * all.size() / kBins, to = (bin + 1) * all.size() / kBins;
    double reals = 0, fakes = 0, predicted = 0, total = 0;
    for (size_t i = from; i < to; ++i) {
      const double weight = all[i].second ? 1 : balance;
      (all[i].second ? reals : fakes) += weight;
      predicted += weight * sigmoid(all[i].first);
      total += weight;
    }
    if (total == 0) continue;
    const double observed = reals / total;
    q.curve_predicted.push_back(predicted / total);
    q.curve_observed.push_back(observed);
    q.curve_error.push_back(std::sqrt(observed * (1 - observed) / static_cast<double>(to - from)));
  }
}

}  // namespace

CalibrationQuality calibration_quality(const Tensor& real, const Tensor& fake) {
  const auto a = to_vector(real), b = to_vector(fake);
  const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  const Labelled all = sorted(a, b);
  CalibrationQuality q;
  add_means(a, b, q);
  q.auc = area(all, n, m);
  q.slope = regression_slope(real, fake);
  add_curve(all, n / m, q);
  return q;
}

}  // namespace hastings
