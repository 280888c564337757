#include "hastings/explore/start.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "hastings/chain/hmc.h"
#include "hastings/chain/independent.h"
#include "hastings/core/error.h"
#include "hastings/explore/anneal.h"
#include "hastings/explore/modes.h"

namespace hastings {
namespace {

constexpr int64_t kClimbers = 32;
constexpr int64_t kHamiltonian = 17;  // dimensions from which on tempering by random walks is hopeless

struct Candidate {
  GaussianMixture mixture;  // in the target's own coordinates
  double acceptance = 0;
};

double scale_of(const Target& target, const StartOptions& options) {
  return options.scale > 0 ? options.scale : target.scale();
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
  const auto proposal = make_mixture_proposal(mixture);
  const IndependentKernel kernel(density_of(target), *proposal);
  State state = kernel.begin(n, stream);
  for (int step = 0; step < steps; ++step) kernel.step(state, {stream, stream});
  return {state.x, state.log_prob};
}

// Where neither a Gaussian overlaps nor a random walk gets about: Hamiltonian moves from the Gaussian at the mode,
// scaled by it. The step is halved until the moves are accepted.
Population hmc_population(const Target& target, const GaussianMixture& mixture, int64_t n, Stream& stream,
                          Observer& observer, std::vector<LearnProgress>& history) {
  constexpr int64_t kChains = 256, kLeapfrogs = 10;
  constexpr int kTrial = 4, kHalvings = 10, kBurnIn = 60, kApart = 4;
  const Density density = density_of(target);
  const auto d = static_cast<double>(target.dim());
  double step = 0.8 / std::pow(d, 0.25);
  Tensor x =
      mixture.means[0] + 0.5 * (mixture.from_noise(stream.normal({kChains, mixture.dim() + 1})) - mixture.means[0]);
  if (mixture.components() > 1) x = mixture.from_noise(stream.normal({kChains, mixture.dim() + 1}));
  auto kernel = make_hmc(density, mixture.factors[0], step, kLeapfrogs);
  State state = kernel->init(x);
  auto moved = [&](int steps) {
    double accepted = 0;
    for (int i = 0; i < steps; ++i) {
      if (observer.should_stop()) throw Interrupted("stopped while looking for a start");
      accepted += kernel->step(state, {stream, stream}).accept_prob.mean().item<double>() / steps;
    }
    return accepted;
  };
  auto tune = [&] {
    for (int halving = 0; halving < kHalvings && moved(kTrial) < 0.65; ++halving) {
      step /= 2;
      kernel = make_hmc(density, mixture.factors[0], step, kLeapfrogs);
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
    population = anneal(target, {scale, n, options.seed}, observer, history);
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
