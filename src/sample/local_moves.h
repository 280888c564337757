// The local kernel of a sampling run.
#pragma once

#include "hastings/chain/kernel.h"
#include "hastings/proposal/proposal.h"
#include "hastings/sample/sampler.h"

namespace hastings {

// Scaled to the proposal's own spread. The step has the usual scaling with dimension, halved while a short trial
// accepts too little: where the proposal is wider than the target somewhere, its spread is no guide. Decided once,
// before any draw, from streams of its own. Null for independent moves alone. Refers to target and proposal.
std::unique_ptr<Kernel> make_local_moves(const Target& target, const Proposal& proposal, const SampleOptions& options);

}  // namespace hastings
