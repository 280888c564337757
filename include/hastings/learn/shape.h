// What can be known of a flow without learning it.
#pragma once

#include "hastings/explore/population.h"
#include "hastings/proposal/flow_proposal.h"

namespace hastings {

// Sets what is known of a flow before learning: a radial layer by the radii of the states, a bend layer by the target's
// third derivatives at the whitening's centre, the last layer by the moments of weighted draws. Each is kept only if
// the acceptance rate against the states rises. Returns that rate. For a base of one Gaussian.
double shape_start(const Target& target, const Whitening& whitening, FlowProposal& flow, const Population& states,
                   uint64_t seed);

}  // namespace hastings
