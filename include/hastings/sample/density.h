// A target as the density that kernels work on.
#pragma once

#include <ATen/core/grad_mode.h>

#include "hastings/kernel/local.h"
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

}  // namespace hastings
