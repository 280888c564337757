// A certificate of convergence from coupled chains (Biswas, Jacob and Vanetti 2019).
//
// Two chains of independent MH driven by the same candidates and the same uniforms stay together from the first step at
// which both accept. With the second chain lagging by one step, their meeting times tau bound the distance of the chain
// to its stationary distribution after t steps:  TV(t) <= E max(0, ceil((tau - lag - t) / lag)).
#pragma once

#include <cstdint>
#include <vector>

#include "hastings/proposal/proposal.h"
#include "hastings/target/target.h"

namespace hastings {

struct MeetingOptions {
  int64_t pairs = 200;
  int64_t max_steps = 10000;  // a pair that has not met by then is counted at this time and reported
  int64_t lag = 1;
  uint64_t seed = 1;
};

struct Meeting {
  std::vector<int64_t> times;  // of each pair
  int64_t not_met = 0;
  int64_t lag = 1;

  double bound(int64_t steps) const;         // on the total variation distance after `steps`
  int64_t steps_for(double distance) const;  // first number of steps with bound <= distance
};

Meeting meeting_times(const Target& target, const Proposal& proposal, const MeetingOptions& options);

}  // namespace hastings
