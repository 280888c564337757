// How well a proposal's draws and a population of states overlap: the acceptance rate between them.
#pragma once

#include "hastings/learn/objectives.h"
#include "hastings/learn/start.h"

namespace hastings {

inline double overlap(const Target& target, const Draws& draws, const Tensor& state_log_prob,
                      const Tensor& state_log_q) {
  return evaluate(Objective::kAr, target.log_prob(draws.x) - draws.log_q, state_log_prob - state_log_q).acceptance;
}

}  // namespace hastings
