// Means and standard deviations of the three posteriors, from a long run of another sampler: made by
// tests/reference/make_posterior_truth.py, read from tests/reference/posterior_truth.json when the program is built.
#pragma once

#include <string>
#include <vector>

namespace hastings::reproduce {

struct PosteriorMoments {
  std::vector<double> mean, sd;
};
PosteriorMoments posterior_moments(const std::string& name);  // german | heart | australian

}  // namespace hastings::reproduce
