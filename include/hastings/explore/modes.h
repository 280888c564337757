// Modes of a density, and Gaussians at them.
#pragma once

#include <optional>

#include "hastings/proposal/proposal.h"
#include "hastings/target/target.h"

namespace hastings {

constexpr int64_t kMaxModes = 16;

// Modes reached from the given points, and the mixture of Gaussians at them, by their curvatures; none where there are
// too many modes, or where the curvature is not that of a peak.
struct ModeSearch {
  int64_t found = 0;
  std::optional<GaussianMixture> mixture;
};
ModeSearch search_modes(const Target& target, const Tensor& from);

// One Gaussian by mean and covariance of the rows of x.
GaussianMixture moment_fit(const Tensor& x);

// A few steps of expectation–maximisation: the forward-KL fit of the mixture to the rows of x.
GaussianMixture refined(GaussianMixture mixture, const Tensor& x);

}  // namespace hastings
