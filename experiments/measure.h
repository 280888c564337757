// What both tables measure: the paper's effective sample size against the best known moments.
#pragma once

#include "hastings/target/target.h"

namespace hastings::reproduce {

// Mean and standard deviation of the statistics: exact, or those of tests/reference/posterior_truth.json (a long run of
// another sampler, read when the program is built) for the posteriors german, heart and australian.
Truth truth_of(const std::string& name, const Target& target);

// The paper's ESS, least over the statistics, autocorrelations averaged over the chains: draws [chains, draws, dim].
double least_ess(const Target& target, const Truth& truth, const Tensor& draws);

}  // namespace hastings::reproduce
