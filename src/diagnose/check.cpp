#include "hastings/diagnose/check.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cmath>

#include "../core/clock.h"

namespace hastings {
namespace {

constexpr int64_t kPoints = 512, kTried = 16, kDirections = 4, kTimed = 256;
constexpr double kGradient = 1e-4, kBatch = 1e-6, kFloat = 0.05;

// Differences of order four, along a direction of length one; the step with the least disagreement of three.
double difference(const Target& target, const Tensor& x, const Tensor& direction) {
  double best = 0, least = std::numeric_limits<double>::infinity();
  for (const double h : {1e-3, 1e-4, 1e-5}) {
    const Tensor steps = at::tensor({-2 * h, -h, h, 2 * h}, at::kDouble).unsqueeze(1) * direction;
    const Tensor f = target.log_prob(x + steps);
    const double* v = f.data_ptr<double>();
    const double second = (v[2] - v[1]) / (2 * h), fourth = (v[0] - 8 * v[1] + 8 * v[2] - v[3]) / (12 * h);
    const double disagreement = std::fabs(second - fourth) + 1e-16 * std::fabs(v[1]) / h;
    if (!std::isfinite(fourth) || !(disagreement < least)) continue;
    least = disagreement;
    best = fourth;
  }
  return std::isfinite(least) ? best : std::nan("");
}

template <class F>
double seconds_of(int64_t evaluations, F f) {
  f();  // the first call prepares
  const auto begin = std::chrono::steady_clock::now();
  int64_t rounds = 0;
  do {
    f();
    ++rounds;
  } while (seconds_since(begin) < 0.1);
  return seconds_since(begin) / static_cast<double>(rounds * evaluations);
}

std::string some(const std::vector<std::string>& names) {
  const size_t shown = std::min<size_t>(names.size(), 5);
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<long>(shown), ", "),
                     shown < names.size() ? fmt::format(" and {} more", names.size() - shown) : "");
}

}  // namespace

TargetCheck check_target(const Target& target, uint64_t seed) {
  const at::NoGradGuard no_grad;
  TargetCheck c;
  c.dim = target.dim();
  c.outputs = static_cast<int64_t>(target.output_names().size());
  c.points = kPoints;
  Stream stream(seed, Phase::kCheck, 0, Purpose::kStart);
  const Tensor x = stream.normal({kPoints, c.dim}) * target.scale();
  const Tensor value = target.log_prob(x);
  const Tensor finite = at::isfinite(value);
  c.finite = finite.to(at::kDouble).mean().item<double>();
  const int64_t nan = at::isnan(value).sum().item<int64_t>(), plus = at::isposinf(value).sum().item<int64_t>();
  const std::string complaint = target.complaint();
  if (c.finite == 0) {
    c.problems.push_back(fmt::format("The log density is finite at none of {} points around the origin{}.", kPoints,
                                     complaint.empty() ? "" : ": " + complaint));
    return c;
  }
  if (c.finite < 0.5) {
    c.problems.push_back(
        fmt::format("The log density is finite at {:.0f} % of the points only: is a constraint missing?{}",
                    100 * c.finite, complaint.empty() ? "" : " First complaint: " + complaint));
  } else if (c.finite < 1) {
    c.notes.push_back(fmt::format("{:.1f} % of the points have no finite log density; they would be rejected.{}",
                                  100 * (1 - c.finite), complaint.empty() ? "" : " First complaint: " + complaint));
  }
  if (nan > 0) c.problems.push_back(fmt::format("The log density is NaN at {} of {} points.", nan, kPoints));
  if (plus > 0) c.problems.push_back(fmt::format("The log density is +infinity at {} of {} points.", plus, kPoints));

  const Tensor good = x.index_select(0, finite.nonzero().squeeze(1));
  const int64_t n = std::min<int64_t>(kTried, good.size(0));
  const Tensor tried = good.narrow(0, 0, n).contiguous();
  const Tensor expected = target.log_prob(tried);
  if (!at::equal(expected, target.log_prob(tried)))
    c.problems.push_back("The same points give another log density the second time: it is not a function.");

  // Rows alone against rows in a batch.
  for (int64_t i = 0; i < n; ++i) {
    const double alone = target.log_prob(tried.narrow(0, i, 1)).item<double>(), batch = expected[i].item<double>();
    const double error = std::fabs(alone - batch) / (1 + std::fabs(batch));
    c.batch_error = std::max(c.batch_error, std::isfinite(error) ? error : 1.0);
  }
  if (c.batch_error > kBatch) {
    c.problems.push_back(
        fmt::format("A point alone and the same point in a batch differ (relatively {:.1e}): the rows of a batch must "
                    "not depend on each other.",
                    c.batch_error));
  }

  // Gradient against differences.
  const Gradient g = target.with_gradient(tried);
  const double apart = ((g.log_prob - expected).abs() / (1 + expected.abs())).max().item<double>();
  if (!(apart < kBatch))
    c.problems.push_back(fmt::format("The log density with and without gradient differs (relatively {:.1e}).", apart));
  if (!at::isfinite(g.gradient).all().item<bool>())
    c.problems.push_back("The gradient is not finite at points where the log density is.");
  int64_t compared = 0;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < kDirections; ++k) {
      Tensor v = stream.normal({c.dim});
      v = v / v.norm();
      const double slope = at::dot(g.gradient[i], v).item<double>(), real = difference(target, tried[i], v);
      if (!std::isfinite(real) || !std::isfinite(slope)) continue;
      ++compared;
      c.gradient_error = std::max(c.gradient_error, std::fabs(slope - real) / (1 + std::fabs(real)));
    }
  }
  if (compared == 0) {
    c.problems.push_back("The gradient could not be compared with differences anywhere.");
  } else if (c.gradient_error > kGradient) {
    c.problems.push_back(
        fmt::format("The gradient disagrees with differences of the log density (relatively {:.1e}): learning would "
                    "follow a wrong direction.",
                    c.gradient_error));
  }
  // Coordinates that the density does not know.
  const Tensor flat = g.gradient.eq(0).all(0);
  std::vector<std::string> unused;
  const auto names = target.parameter_names();
  for (int64_t j = 0; j < c.dim; ++j) {
    if (flat[j].item<bool>()) unused.push_back(names[static_cast<size_t>(j)]);
  }
  if (!unused.empty()) {
    c.problems.push_back(fmt::format(
        "The log density does not depend on {}: without a prior there it cannot be normalised.", some(unused)));
  }

  const Tensor rounded = tried.to(at::kFloat).to(at::kDouble);
  c.float_error = (target.log_prob(rounded) - expected).abs().nan_to_num(0).max().item<double>();
  if (c.float_error > kFloat) {
    c.notes.push_back(
        fmt::format("Rounding a point to float changes its log density by up to {:.2g}: far from its mass, or a very "
                    "steep density; --precision double may be needed.",
                    c.float_error));
  }
  const Tensor many = good.index_select(0, stream.integers(kTimed, good.size(0)));
  c.value_seconds = seconds_of(kTimed, [&] { target.log_prob(many); });
  c.gradient_seconds = seconds_of(kTimed, [&] { target.with_gradient(many); });
  return c;
}

}  // namespace hastings
