#include "hastings/chain/hmc.h"

#include <ATen/ATen.h>

#include <cmath>

#include "hastings/baseline/learned_kernels.h"
#include "hastings/core/error.h"

namespace hastings {

TunedHmc tune_hmc(const Target& target, const HmcOptions& options, Observer& observer) {
  const at::NoGradGuard no_grad;
  const Density density = density_of(target);
  const Tensor identity = at::eye(target.dim(), at::kDouble);
  const Streams streams{options.seed, Phase::kHmcTuning};
  Stream start = streams(Purpose::kStart), noise = streams(Purpose::kLocal), uniforms = streams(Purpose::kLocalAccept);
  auto kernel = [&](double step) { return make_hmc(density, identity, step, options.leapfrog_steps, options.jitter); };
  State state = kernel(0.1)->init(start.normal({options.chains, target.dim()}) * target.scale());
  // Dual averaging of log step (their section 3.2), on the mean acceptance of the chains.
  constexpr double kGamma = 0.05, kOffset = 10, kKappa = 0.75;
  const double mu = std::log(10 * 0.1);
  double log_step = std::log(0.1), average = log_step, gap = 0;
  for (int64_t t = 1; t <= options.warmup; ++t) {
    if (observer.should_stop()) throw Interrupted("stopped while tuning HMC");
    const Info info = kernel(std::exp(log_step))->step(state, {noise, uniforms});
    const auto count = static_cast<double>(t);
    const double accepted = info.accept_prob.mean().item<double>();
    gap += (options.target_acceptance - accepted - gap) / (count + kOffset);
    log_step = mu - std::sqrt(count) / kGamma * gap;
    const double weight = std::pow(count, -kKappa);
    average = weight * log_step + (1 - weight) * average;
    if (t % 50 == 0) {
      LearnProgress row;
      row.phase = "hmc";
      row.iteration = t;
      row.max_iterations = options.warmup;
      row.acceptance = accepted;
      observer.on_learn(row);
    }
  }
  return {kernel(std::exp(average)), std::exp(average), state.x};
}

}  // namespace hastings
