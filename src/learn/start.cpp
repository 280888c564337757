#include "hastings/learn/start.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "hastings/core/accept.h"
#include "hastings/core/error.h"
#include "hastings/core/moments.h"
#include "hastings/kernel/local.h"
#include "hastings/learn/overlap.h"

namespace hastings {
namespace {

constexpr int64_t kClimbers = 32;
constexpr int64_t kMaxModes = 16;
constexpr int64_t kHamiltonian = 17;  // dimensions from which on tempering by random walks is hopeless

struct Candidate {
  GaussianMixture mixture;  // in the target's own coordinates
  double acceptance = 0;
};

double scale_of(const Target& target, const StartOptions& options) {
  return options.scale > 0 ? options.scale : target.scale();
}

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

GaussianMixture moment_fit(const Tensor& x) {
  const Moments m = moments(x);
  return {at::zeros({1}, at::kDouble), m.mean.unsqueeze(0), m.factor.unsqueeze(0)};
}

// A few steps of expectation–maximisation: the forward-KL fit of the mixture to a population.
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

// The acceptance rate of a mixture as proposal, states from the population.
double acceptance_on(const Target& target, const GaussianMixture& mixture, const Population& states, Stream& stream) {
  const int64_t n = std::min<int64_t>(2048, states.x.size(0));
  const Tensor x = mixture.from_noise(stream.normal({n, mixture.dim() + 1}));
  return overlap(target, {x, mixture.log_prob(x)}, states.log_prob.narrow(0, 0, n),
                 mixture.log_prob(states.x.narrow(0, 0, n)));
}

// Chains of independent MH from a mixture, all started at its own draws: a population when it overlaps well.
Population population_from(const Target& target, const GaussianMixture& mixture, int64_t n, int steps, Stream& stream) {
  Population p;
  Tensor weight;
  for (int step = 0; step <= steps; ++step) {
    const Tensor x = mixture.from_noise(stream.normal({n, mixture.dim() + 1}));
    const Tensor log_p = target.log_prob(x), w = log_p - mixture.log_prob(x);
    if (step == 0) {
      p = {x, log_p};
      weight = at::where(at::isfinite(w), w, at::full_like(w, -std::numeric_limits<double>::infinity()));
      continue;
    }
    const Tensor accepted = accept_mask(stream.uniform({n}).log(), log_ratio(w, weight));
    p.x = at::where(accepted.unsqueeze(1), x, p.x);
    p.log_prob = at::where(accepted, log_p, p.log_prob);
    weight = at::where(accepted, w, weight);
  }
  return p;
}

// Where neither a Gaussian overlaps nor a random walk gets about: Hamiltonian moves from the Gaussian at the mode,
// scaled by it. The step is halved until the moves are accepted.
Population hmc_population(const Target& target, const GaussianMixture& mixture, int64_t n, Stream& stream,
                          Observer& observer, std::vector<LearnProgress>& history) {
  constexpr int64_t kChains = 256, kLeapfrogs = 10;
  constexpr int kTrial = 4, kHalvings = 10, kBurnIn = 60, kApart = 4;
  const Density density = [&target](const Tensor& x, bool with_gradient) {
    if (!with_gradient) return Evaluated{target.log_prob(x), {}};
    const Gradient g = target.with_gradient(x);
    return Evaluated{g.log_prob, g.gradient};
  };
  const auto d = static_cast<double>(target.dim());
  double step = 0.8 / std::pow(d, 0.25);
  Tensor x =
      mixture.means[0] + 0.5 * (mixture.from_noise(stream.normal({kChains, mixture.dim() + 1})) - mixture.means[0]);
  if (mixture.components() > 1) x = mixture.from_noise(stream.normal({kChains, mixture.dim() + 1}));
  auto kernel = make_hmc(mixture.factors[0], step, kLeapfrogs);
  LocalState state = kernel->init(x, density);
  auto moved = [&](int steps) {
    double accepted = 0;
    for (int i = 0; i < steps; ++i) {
      if (observer.should_stop()) throw Interrupted("stopped while looking for a start");
      accepted += kernel->step(state, density, stream, stream).accept_prob.mean().item<double>() / steps;
    }
    return accepted;
  };
  auto tune = [&] {
    for (int halving = 0; halving < kHalvings && moved(kTrial) < 0.65; ++halving) {
      step /= 2;
      kernel = make_hmc(mixture.factors[0], step, kLeapfrogs);
    }
  };
  tune();
  moved(kBurnIn / 2);
  tune();  // now where the mass is
  const double accepted = moved(kBurnIn / 2);
  Population p;
  std::vector<Tensor> points, values;
  for (int64_t have = 0; have < n; have += kChains) {
    moved(kApart);
    points.push_back(state.x.clone());
    values.push_back(state.log_prob.clone());
  }
  p.x = at::cat(points).narrow(0, 0, n).contiguous();
  p.log_prob = at::cat(values).narrow(0, 0, n).contiguous();
  // Learning takes states in turn; neighbours should not be of the same moment.
  const Tensor order = stream.permutation(n);
  p.x = p.x.index_select(0, order);
  p.log_prob = p.log_prob.index_select(0, order);
  LearnProgress row;
  row.phase = "hmc";
  row.acceptance = accepted;
  history.push_back(row);
  observer.on_learn(row);
  return p;
}

Start finish(std::string method, const GaussianMixture& mixture, double acceptance, const Population& population) {
  Start start;
  start.method = std::move(method);
  const GaussianMixture whole = mixture.components() == 1 ? mixture : moment_fit(population.x);
  start.whitening = {whole.means[0], whole.factors[0]};
  start.acceptance = acceptance;
  start.population = population;
  if (mixture.components() == 1) {
    start.base = GaussianMixture::standard(mixture.dim());
  } else {
    const Tensor inverse = at::linalg_inv(start.whitening.factor);
    start.base = {mixture.log_weights, at::matmul(mixture.means - start.whitening.shift, inverse.t()),
                  at::matmul(inverse, mixture.factors).tril()};
  }
  return start;
}

// Modes reached from the given points, and the mixture of Gaussians at them.
struct ModeSearch {
  int64_t found = 0;
  std::optional<GaussianMixture> mixture;
};
ModeSearch search_modes(const Target& target, const Tensor& from) {
  const Modes modes = distinct_modes(target, climb(target, from));
  if (!modes.x.defined()) return {};
  ModeSearch out;
  out.found = modes.x.size(0);
  if (out.found <= kMaxModes) out.mixture = laplace_mixture(target, modes.x, modes.log_prob);
  return out;
}

void keep_best(std::optional<Candidate>& best, Candidate candidate) {
  if (!best || candidate.acceptance > best->acceptance) best = std::move(candidate);
}

}  // namespace

void StartOptions::validate() const {
  if (method != "auto" && method != "laplace" && method != "anneal" && method != "none") {
    throw ConfigError(fmt::format("init '{}': must be auto, laplace, anneal or none", method));
  }
  if (!(scale >= 0) || !std::isfinite(scale))
    throw ConfigError(fmt::format("start_scale is {}, must be positive", scale));
  if (particles < 64) throw ConfigError(fmt::format("particles is {}, must be at least 64", particles));
}

Start find_start(const Target& target, const StartOptions& options, Observer& observer) {
  options.validate();
  const at::NoGradGuard no_grad;
  Stream stream(options.seed, Phase::kStart, 0, Purpose::kStart);
  const int64_t n = options.particles, d = target.dim();
  const double scale = scale_of(target, options);

  if (options.method == "none") {
    GaussianMixture wide = GaussianMixture::standard(d);
    wide.factors = wide.factors * scale;
    // The buffer is filled by MH with the first proposal, long enough for a poor one.
    return finish("none", wide, 0, population_from(target, wide, n, 64, stream));
  }

  std::optional<Candidate> best;
  Population population;
  int64_t modes = 0;
  if (options.method != "anneal") {
    ModeSearch search = search_modes(target, stream.normal({kClimbers, d}) * (2 * scale));
    modes = search.found;
    if (search.mixture && (options.mixture || search.mixture->components() == 1)) {
      population = population_from(target, *search.mixture, n, 8, stream);
      keep_best(best, {*search.mixture, acceptance_on(target, *search.mixture, population, stream)});
    }
    const bool good = best && best->acceptance > 0.2;
    const bool sure = options.method == "laplace" || d > 4;
    if (good && sure) {
      Start start = finish("laplace", best->mixture, best->acceptance, population);
      start.modes = modes;
      return start;
    }
    if (options.method == "laplace") {
      throw NumericalError(fmt::format("target {}: {} and no Gaussian there overlaps the density; try --init anneal",
                                       target.name(),
                                       modes == 0 ? "no mode was found" : fmt::format("{} modes were found", modes)));
    }
  }

  std::vector<LearnProgress> history;
  const bool hamiltonian = best && d >= kHamiltonian && options.method == "auto";
  if (hamiltonian) {
    const GaussianMixture laplace = best->mixture;
    population = hmc_population(target, laplace, n, stream, observer, history);
    best.reset();
    keep_best(best, {laplace, acceptance_on(target, laplace, population, stream)});
  } else {
    population = anneal(target, options, observer, history);
    best.reset();
  }
  const GaussianMixture single = moment_fit(population.x);
  keep_best(best, {single, acceptance_on(target, single, population, stream)});
  if (options.mixture && !hamiltonian) {
    const Tensor from = population.x.index_select(0, stream.integers(kClimbers, n));
    const ModeSearch search = search_modes(target, from);
    modes = search.found;
    if (search.mixture) {
      keep_best(best, {*search.mixture, acceptance_on(target, *search.mixture, population, stream)});
      const GaussianMixture fitted = refined(*search.mixture, population.x);
      keep_best(best, {fitted, acceptance_on(target, fitted, population, stream)});
    }
  }
  Start start = finish(hamiltonian ? "hmc" : "anneal", best->mixture, best->acceptance, population);
  start.modes = modes;
  start.history = std::move(history);
  return start;
}

}  // namespace hastings
