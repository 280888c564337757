// A population carried from a wide Gaussian to the target through pi_b = N^(1-b) p^b. Each step of b keeps
// half of the effective sample size; then resampling and random-walk moves, whose size follows their
// acceptance (sequential Monte Carlo; Del Moral, Doucet and Jasra 2006).
#include "hastings/explore/anneal.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <numbers>

#include "hastings/chain/random_walk.h"
#include "hastings/core/error.h"
#include "hastings/core/moments.h"

namespace hastings {
namespace {

double effective_share(const Tensor& log_weight) {
  const Tensor w = (log_weight - log_weight.max()).exp();
  return (w.sum().square() / w.square().sum()).item<double>() / static_cast<double>(w.size(0));
}

// The largest step of beta that leaves half of the sample effective.
double next_beta(const Tensor& increment, double beta) {
  if (effective_share(increment * (1 - beta)) >= 0.5) return 1.0;
  double low = 0, high = 1 - beta;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (effective_share(increment * middle) >= 0.5 ? low : high) = middle;
  }
  return beta + std::max(low, 1e-6);
}

Tensor systematic(const Tensor& log_weight, double u) {
  const int64_t n = log_weight.size(0);
  const Tensor w = at::softmax(log_weight, 0).cumsum(0);
  const Tensor points = (at::arange(n, at::kDouble) + u) / static_cast<double>(n);
  return at::searchsorted(w, points).clamp_max(n - 1);
}

}  // namespace

Population anneal(const Target& target, const AnnealOptions& options, Observer& observer,
                  std::vector<LearnProgress>& history) {
  const at::NoGradGuard no_grad;
  const auto begin = std::chrono::steady_clock::now();
  const int64_t n = options.particles, dim = target.dim();
  const double wide = 3 * options.scale;
  const double constant = -static_cast<double>(dim) * std::log(wide * std::sqrt(2 * std::numbers::pi));
  Stream noise(options.seed, Phase::kAnneal, 0, Purpose::kLocal);
  Stream uniforms(options.seed, Phase::kAnneal, 0, Purpose::kLocalAccept);
  auto log_first = [&](const Tensor& x) { return x.square().sum(-1) * (-0.5 / (wide * wide)) + constant; };

  Tensor x = noise.normal({n, dim}) * wide;
  Tensor log_p = target.log_prob(x);
  const Tensor impossible = at::full({}, -std::numeric_limits<double>::infinity(), at::kDouble);
  auto cleaned = [&](const Tensor& v) { return at::where(at::isfinite(v), v, impossible); };
  log_p = cleaned(log_p);
  if (!at::isfinite(log_p).any().item<bool>()) {
    throw NumericalError(
        fmt::format("target {}: the log density is not finite at any of {} starting points of scale {:g}; "
                    "check the density, or set --start-scale",
                    target.name(), n, wide));
  }
  double beta = 0, step = 2.38 / std::sqrt(static_cast<double>(dim));
  constexpr int kMoves = 12, kMaxLevels = 500;
  for (int level = 1; beta < 1; ++level) {
    if (level > kMaxLevels)
      throw NumericalError(
          "annealing does not reach the target in 500 temperatures; try --init laplace or another --start-scale");
    if (observer.should_stop()) throw Interrupted("stopped while annealing");
    const Tensor increment = log_p - log_first(x);
    const double next = next_beta(increment, beta);
    const Tensor chosen = systematic(increment * (next - beta), uniforms.uniform());
    beta = next;
    x = x.index_select(0, chosen);
    const Density density = [&](const Tensor& at_x, bool) {
      return Evaluated{beta * cleaned(target.log_prob(at_x)) + (1 - beta) * log_first(at_x), {}};
    };
    const Tensor factor = moments(x).factor;
    State state{x, density(x, false).log_prob, {}, {}};
    double acceptance = 0;
    for (int move = 0; move < kMoves; ++move) {
      const Info info = make_random_walk(density, factor, step)->step(state, {noise, uniforms});
      acceptance = info.accept_prob.mean().item<double>();
      step = std::clamp(step * std::exp(acceptance - 0.35), 1e-4, 5.0);
    }
    x = state.x;
    log_p = cleaned(target.log_prob(x));
    LearnProgress row;
    row.phase = "anneal";
    row.iteration = level;
    row.acceptance = acceptance;
    row.beta = beta;
    row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    history.push_back(row);
    observer.on_learn(row);
  }
  return {x, log_p};
}

}  // namespace hastings
