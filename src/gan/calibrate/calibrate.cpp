#include "hastings/gan/calibrate/calibrate.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <numeric>

#include "../numbers.h"
#include "hastings/core/error.h"

namespace hastings {
namespace {

double log1p_exp(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

// Minimises a smooth convex function by L-BFGS with a backtracking line search.
struct Minimum {
  Tensor at;
  bool converged = false;
};
Minimum minimise(Tensor x, const std::function<double(const Tensor&, Tensor&)>& value_and_gradient, double tolerance) {
  constexpr int kMemory = 12, kMaxSteps = 2000;
  Tensor gradient;
  double value = value_and_gradient(x, gradient);
  const double first = std::max(gradient.norm().item<double>(), 1e-12);
  std::deque<std::pair<Tensor, Tensor>> pairs;  // steps and changes of the gradient
  int still = 0;                                // steps in a row that changed the value by nothing to speak of
  for (int step = 0; step < kMaxSteps; ++step) {
    if (gradient.norm().item<double>() <= tolerance * std::max(1.0, first)) return {x, true};
    Tensor direction = -gradient;
    std::vector<double> alpha;
    for (auto p = pairs.rbegin(); p != pairs.rend(); ++p) {
      alpha.push_back(p->first.dot(direction).item<double>() / p->first.dot(p->second).item<double>());
      direction = direction - alpha.back() * p->second;
    }
    if (!pairs.empty()) {
      const auto& [s, y] = pairs.back();
      direction = direction * (s.dot(y) / y.dot(y)).item<double>();
    } else {
      direction = direction / first;
    }
    for (const auto& [s, y] : pairs) {
      const double beta = y.dot(direction).item<double>() / s.dot(y).item<double>();
      direction = direction + (alpha.back() - beta) * s;
      alpha.pop_back();
    }
    const double descent = gradient.dot(direction).item<double>();
    double length = 1;
    Tensor next, next_gradient;
    double next_value = 0;
    for (int tries = 0;; ++tries) {
      next = x + length * direction;
      next_value = value_and_gradient(next, next_gradient);
      if (next_value <= value + 1e-4 * length * descent) break;
      // No further descent within rounding: this is the minimum, or the memory has gone stale.
      if (tries == 40) break;
      length /= 2;
    }
    if (!(next_value < value)) {
      if (pairs.empty()) return {x, gradient.norm().item<double>() <= 1e-2 * std::max(1.0, first)};
      pairs.clear();
      continue;
    }
    const Tensor s = next - x, y = next_gradient - gradient;
    if (s.dot(y).item<double>() > 1e-12 * y.dot(y).item<double>()) pairs.emplace_back(s, y);
    if (pairs.size() > kMemory) pairs.pop_front();
    still = value - next_value <= 1e-9 * std::abs(value) ? still + 1 : 0;
    x = next;
    gradient = next_gradient;
    value = next_value;
    if (still == 5) return {x, true};
  }
  return {x, false};
}

// Logistic regression of real against fake rows, classes of equal weight, ridge 1/(2 C n) |w|^2 on the first
// `penalised` columns. `rows` [n, k] double, the first `real` of them real. Returns [k + 1], the bias last.
Tensor logistic_regression(const Tensor& rows, int64_t real, double c, int64_t penalised, const Tensor& start = {}) {
  const int64_t n = rows.size(0), k = rows.size(1);
  Tensor sign = at::ones({n}, at::kDouble), weight = at::full({n}, 0.5 / static_cast<double>(n - real), at::kDouble);
  sign.narrow(0, real, n - real).fill_(-1);
  weight.narrow(0, 0, real).fill_(0.5 / static_cast<double>(real));
  Tensor ridge = at::zeros({k + 1}, at::kDouble);
  // C as usual: the loss summed over as many rows as there are in the smaller class, twice.
  if (penalised > 0) ridge.narrow(0, 0, penalised).fill_(1 / (c * 2 * static_cast<double>(std::min(real, n - real))));
  const Minimum best = minimise(
      start.defined() ? start : at::zeros({k + 1}, at::kDouble),
      [&](const Tensor& w, Tensor& gradient) {
        // The big products in the precision of the rows, the sums over rows in double.
        const Tensor score = rows.mv(w.narrow(0, 0, k).to(rows.scalar_type())).to(at::kDouble) + w[k];
        const Tensor margin = score * sign;
        const Tensor pull = -weight * sign * at::sigmoid(-margin);
        gradient =
            at::cat({rows.t().mv(pull.to(rows.scalar_type())).to(at::kDouble), pull.sum().view({1})}) + ridge * w;
        return ((weight * at::softplus(-margin)).sum() + 0.5 * (ridge * w * w).sum()).item<double>();
      },
      rows.scalar_type() == at::kDouble ? 1e-8 : 1e-4);
  if (!best.converged) throw NumericalError("calibration: the logistic regression did not converge");
  return best.at;
}

Calibration fit_scores(const std::string& method, const Opinions& real, const Opinions& fake) {
  Calibration out;
  out.method = method;
  const Tensor s = at::cat({real.logits, fake.logits});
  // Where classes separate, the slope would run away: the faintest of ridges.
  if (method == "platt") {
    const double scale = std::max(s.std().item<double>(), 1e-12);
    const auto w = to_vector(logistic_regression((s / scale).unsqueeze(1), real.size(), 1e3, 1));
    out.coefficients = {w[0] / scale, w[1]};
  } else {
    const Tensor rows = at::stack({-at::softplus(-s), at::softplus(s)}, 1);
    const Tensor scale = rows.std(0).clamp_min(1e-12);
    const auto w = to_vector(logistic_regression(rows / scale, real.size(), 1e3, 2));
    const auto sd = to_vector(scale);
    out.coefficients = {w[0] / sd[0], w[1] / sd[1], w[2]};
  }
  return out;
}

// Pool adjacent violators. Blocks of few or one-sided counts are shrunk towards even odds by half a count on each side.
Calibration fit_isotonic(const Opinions& real, const Opinions& fake) {
  struct Block {
    double real, fake, score, count;  // weights of both classes; sum of scores; images
  };
  const auto a = to_vector(real.logits), b = to_vector(fake.logits);
  std::vector<std::pair<double, bool>> all;
  for (const double s : a) all.emplace_back(s, true);
  for (const double s : b) all.emplace_back(s, false);
  std::sort(all.begin(), all.end());
  const double balance = static_cast<double>(a.size()) / static_cast<double>(b.size());
  std::vector<Block> blocks;
  auto share = [](const Block& k) { return k.real / (k.real + k.fake); };
  for (const auto& [score, is_real] : all) {
    blocks.push_back({is_real ? 1.0 : 0.0, is_real ? 0.0 : balance, score, 1});
    while (blocks.size() > 1 && share(blocks[blocks.size() - 2]) >= share(blocks.back())) {
      const Block last = blocks.back();
      blocks.pop_back();
      Block& k = blocks.back();
      k = {k.real + last.real, k.fake + last.fake, k.score + last.score, k.count + last.count};
    }
  }
  Calibration out;
  out.method = "isotonic";
  for (const auto& k : blocks) {
    const double odds = std::log((k.real + 0.5) / (k.fake + 0.5));
    const double centre = k.score / k.count;
    if (!out.knots.empty() && (centre <= out.knots.back() || odds <= out.values.back()))
      continue;  // kept rising by the shrinkage
    out.knots.push_back(centre);
    out.values.push_back(odds);
  }
  return out;
}

// The features a calibration is linear in.
const Tensor& seen(const Calibration& c, const Opinions& o) { return c.of_witness() ? o.witness : o.features; }

// The features are standardised once for all penalties, and a penalty starts where the one before it ended.
std::vector<Calibration> fit_linear(const Calibration& kind, const std::vector<double>& penalties, const Opinions& real,
                                    const Opinions& fake) {
  const Tensor &of_real = seen(kind, real), &of_fake = seen(kind, fake);
  if (!of_real.defined() || !of_fake.defined())
    throw ConfigError(fmt::format("calibration '{}': {}", kind.method,
                                  kind.of_witness()
                                      ? "needs a witness, another network that sees the images"
                                      : "the discriminator does not show the features its last layer sees"));
  const int64_t width = of_real.size(1);
  Tensor rows = at::empty({real.size() + fake.size(), width + (kind.with_logit() ? 1 : 0)}, at::kFloat);
  Tensor features = rows.narrow(1, 0, width);
  features.narrow(0, 0, real.size()).copy_(of_real);
  features.narrow(0, real.size(), fake.size()).copy_(of_fake);
  const Standardiser standardise(features);  // constant columns take no part
  features.sub_(standardise.mean).div_(standardise.scale);
  double logit_mean = 0, logit_scale = 1;
  if (kind.with_logit()) {
    const Tensor logits = at::cat({real.logits, fake.logits});
    logit_mean = logits.mean().item<double>();
    logit_scale = std::max(logits.std().item<double>(), 1e-12);
    rows.select(1, width).copy_((logits - logit_mean) / logit_scale);
  }
  std::vector<Calibration> out;
  Tensor w;
  for (const double penalty : penalties) {
    Calibration c = kind;
    c.penalty = penalty;
    w = logistic_regression(rows, real.size(), penalty, width, w);
    c.weight = (w.narrow(0, 0, width) / standardise.scale.to(at::kDouble)).contiguous();
    c.bias = (w[w.size(0) - 1] - c.weight.dot(standardise.mean.to(at::kDouble))).item<double>();
    if (kind.with_logit()) {
      c.coefficients = {w[width].item<double>() / logit_scale};
      c.bias -= c.coefficients[0] * logit_mean;
    }
    out.push_back(std::move(c));
  }
  return out;
}

}  // namespace

int64_t Opinions::size() const { return logits.size(0); }

Opinions Opinions::rows(int64_t from, int64_t count) const {
  auto part = [&](const Tensor& x) { return x.defined() ? x.narrow(0, from, count) : Tensor(); };
  return {part(logits), part(features), part(witness)};
}

void Calibration::validate() const {
  const std::map<std::string, size_t> needed = {{"none", 0}, {"platt", 2},   {"beta", 3},          {"isotonic", 0},
                                                {"head", 0}, {"witness", 0}, {"logit+witness", 1}, {"refit", 1}};
  const auto found = needed.find(method);
  if (found == needed.end()) throw ConfigError(fmt::format("calibration '{}': is not known", method));
  bool right = coefficients.size() >= found->second;
  if (method == "isotonic")
    right = !knots.empty() && knots.size() == values.size() && std::is_sorted(knots.begin(), knots.end());
  if (of_features()) right = right && weight.defined() && weight.dim() == 1;
  if (!right) throw ConfigError(fmt::format("calibration '{}': its numbers are not those it needs", method));
}

Tensor Calibration::apply(const Opinions& o) const {
  const auto& c = coefficients;
  if (method == "none") return o.logits;
  if (method == "platt") return o.logits * c[0] + c[1];
  if (method == "beta") return -at::softplus(-o.logits) * c[0] + at::softplus(o.logits) * c[1] + c[2];
  if (of_features()) {
    const Tensor& features = seen(*this, o);
    if (!features.defined() || features.size(1) != weight.size(0))
      throw ConfigError(fmt::format("calibration '{}': has {} weights, the network shows {} features", method,
                                    weight.size(0), features.defined() ? features.size(1) : 0));
    const Tensor head = features.mv(weight.to(at::kFloat)).to(at::kDouble) + bias;
    return with_logit() ? head + o.logits * c[0] : head;
  }
  auto scores = to_vector(o.logits);
  for (double& s : scores) {
    if (std::isnan(s)) continue;
    const auto above = std::upper_bound(knots.begin(), knots.end(), s);
    if (above == knots.begin()) {
      s = values.front();
    } else if (above == knots.end()) {
      s = values.back();
    } else {
      const auto i = static_cast<size_t>(above - knots.begin());
      const double t = (s - knots[i - 1]) / (knots[i] - knots[i - 1]);
      s = values[i - 1] + t * (values[i] - values[i - 1]);
    }
  }
  return at::tensor(scores, at::kDouble);
}

std::vector<Calibration> fit_calibrations(const std::string& method, const std::vector<double>& penalties,
                                          const Opinions& real, const Opinions& fake,
                                          const std::shared_ptr<const FeatureNetwork>& witness) {
  if (real.size() < 50 || fake.size() < 50)
    throw DataError(fmt::format("calibration: {} real and {} generated images are too few", real.size(), fake.size()));
  Calibration kind;
  kind.method = method;
  if (method == "none") return {kind};
  if (method == "platt" || method == "beta") return {fit_scores(method, real, fake)};
  if (method == "isotonic") return {fit_isotonic(real, fake)};
  if (!kind.of_features())
    throw ConfigError(fmt::format(
        "calibration '{}': must be none, platt, beta, isotonic, head, refit, witness or logit+witness", method));
  if (kind.of_witness()) kind.witness = witness;
  return fit_linear(kind, penalties, real, fake);
}

Calibration fit_calibration(const std::string& method, double penalty, const Opinions& real, const Opinions& fake) {
  return fit_calibrations(method, {penalty}, real, fake).front();
}

CalibrationQuality calibration_quality(const Tensor& real, const Tensor& fake) {
  const auto a = to_vector(real), b = to_vector(fake);
  const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  CalibrationQuality q;
  double squares_real = 0, squares_fake = 0, loss_real = 0, loss_fake = 0, right = 0, surplus = 0, variance = 0;
  for (const double s : a) {
    const double loss = log1p_exp(-s), d = sigmoid(s);
    loss_real += loss / n;
    squares_real += loss * loss / n;
    right += s > 0 ? 0.5 / n : 0;
    surplus += (1 - d);
    variance += d * (1 - d);
    q.odds_real += std::exp(-s) / n;
  }
  double weights = 0, weight_squares = 0;
  const double top = *std::max_element(b.begin(), b.end());
  for (const double s : b) {
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

  std::vector<std::pair<double, bool>> all;
  for (const double s : a) all.emplace_back(s, true);
  for (const double s : b) all.emplace_back(s, false);
  std::sort(all.begin(), all.end());
  // Area under the curve by ranks, ties counted half.
  double rank_sum = 0;
  for (size_t i = 0; i < all.size();) {
    size_t j = i, reals = 0;
    for (; j < all.size() && all[j].first == all[i].first; ++j) reals += all[j].second ? 1 : 0;
    rank_sum += static_cast<double>(reals) * (static_cast<double>(i + j + 1) / 2);
    i = j;
  }
  q.auc = (rank_sum - n * (n + 1) / 2) / (n * m);
  const Tensor scores = at::cat({real, fake}).to(at::kDouble);
  const double spread = std::max(scores.std().item<double>(), 1e-12);
  const Tensor slope = logistic_regression((scores / spread).unsqueeze(1), static_cast<int64_t>(a.size()), 1e4, 1);
  q.slope = slope[0].item<double>() / spread;

  constexpr size_t kBins = 15;
  for (size_t bin = 0; bin < kBins; ++bin) {
    const size_t from = bin * all.size() / kBins, to = (bin + 1) * all.size() / kBins;
    double reals = 0, fakes = 0, predicted = 0, total = 0;
    for (size_t i = from; i < to; ++i) {
      const double weight = all[i].second ? 1 : n / m;
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
  return q;
}

}  // namespace hastings
