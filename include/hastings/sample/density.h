// A target as the density that kernels work on, a proposal as the draws they mix with.
#pragma once

#include <ATen/core/grad_mode.h>

#include "hastings/kernel/local.h"
#include "hastings/proposal/proposal.h"
#include "hastings/target/target.h"

namespace hastings {

// Refers to the target.
inline Density density_of(const Target& target) {
  return [&target](const Tensor& x, bool with_gradient) {
    if (!with_gradient) {
      const at::NoGradGuard no_grad;
      return Evaluated{target.log_prob(x), {}};
    }
    const Gradient g = target.with_gradient(x);
    return Evaluated{g.log_prob, g.gradient};
  };
}

// Refers to the proposal.
inline IndependentDraws draws_of(const Proposal& proposal) {
  return {[&proposal](int64_t n, RowStreams noise) {
            const Draws draws = proposal.from_noise(noise.normal(n, proposal.noise_dim()));
            return std::pair<Tensor, Tensor>(draws.x, draws.log_q);
          },
          [&proposal](const Tensor& x) { return proposal.log_prob(x); }};
}

}  // namespace hastings
