#include "local_moves.h"

#include <ATen/ATen.h>

#include <cmath>

#include "hastings/chain/hmc.h"
#include "hastings/chain/independent.h"
#include "hastings/chain/mala.h"
#include "hastings/chain/mixture.h"
#include "hastings/chain/random_walk.h"
#include "hastings/core/moments.h"

namespace hastings {
namespace {

std::unique_ptr<Kernel> make_local(const Density& density, const Proposal& proposal, const SampleOptions& options,
                                   const Tensor& factor, double step) {
  switch (options.local_moves) {
    case LocalMoves::kRandomWalk:
      return make_random_walk(density, factor, step);
    case LocalMoves::kMala:
      return make_mala(density, factor, step);
    case LocalMoves::kHmc:
      return make_hmc(density, factor, step, options.leapfrog_steps);
    default:
      return make_random_walk_mixture(density, proposal, 1 - options.local_fraction, factor, step);
  }
}

double usual_step(LocalMoves moves, double dim) {
  if (moves == LocalMoves::kMala) return 1.65 / std::pow(dim, 1.0 / 6);
  if (moves == LocalMoves::kHmc) return 0.8 / std::pow(dim, 0.25);
  return 2.38 / std::sqrt(dim);
}

}  // namespace

std::unique_ptr<Kernel> make_local_moves(const Target& target, const Proposal& proposal, const SampleOptions& options) {
  constexpr int64_t kChains = 64;
  constexpr int kSettle = 29, kSteps = 8, kHalvings = 8;
  constexpr double kWanted = 0.5;
  if (options.local_moves == LocalMoves::kNone) return nullptr;
  const at::NoGradGuard no_grad;
  Stream stream(options.seed, Phase::kLocalTuning, 0, Purpose::kStart);
  const Density density = density_of(target);
  const Tensor factor = moments(proposal.sample(2048, stream).x).factor;
  auto kernel_of = [&](double step) { return make_local(density, proposal, options, factor, step); };
  if (options.local_step > 0) return kernel_of(options.local_step);
  double step = usual_step(options.local_moves, static_cast<double>(target.dim()));
  if (options.local_moves != LocalMoves::kMala && options.local_moves != LocalMoves::kHmc) return kernel_of(step);
  // Trial states: draws of the proposal, moved by independent steps.
  const IndependentKernel independent(density, proposal);
  State begin = independent.begin(kChains, stream);
  for (int i = 0; i < kSettle; ++i) independent.step(begin, {stream, stream});
  for (int halving = 0;; ++halving, step /= 2) {
    auto kernel = kernel_of(step);
    State state = kernel->init(begin.x.clone());
    double accepted = 0;
    for (int i = 0; i < kSteps; ++i)
      accepted += kernel->step(state, {stream, stream}).accept_prob.mean().item<double>() / kSteps;
    if (accepted >= kWanted || halving == kHalvings) return kernel;
  }
}

}  // namespace hastings
