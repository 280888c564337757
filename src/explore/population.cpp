#include "hastings/explore/population.h"

#include "hastings/core/objectives.h"

namespace hastings {

double overlap(const Target& target, const Draws& draws, const Tensor& state_log_prob, const Tensor& state_log_q) {
  return evaluate(Objective::kAr, target.log_prob(draws.x) - draws.log_q, state_log_prob - state_log_q).acceptance;
}

}  // namespace hastings
