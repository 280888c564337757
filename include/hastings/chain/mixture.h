// The mixture of an independent proposal and a random walk, with the ratio of the whole mixture:
//   q(x' | x) = share q*(x') + (1 - share) N(x' | x, (step L)(step L)^T).
#pragma once

#include "hastings/chain/kernel.h"
#include "hastings/proposal/proposal.h"

namespace hastings {

// Refers to the proposal.
std::unique_ptr<Kernel> make_random_walk_mixture(Density density, const Proposal& independent, double share,
                                                 const Tensor& factor, double step_size);

}  // namespace hastings
