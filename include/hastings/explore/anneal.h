// A population carried from a wide Gaussian to the target by tempering, with random-walk moves.
#pragma once

#include <vector>

#include "hastings/core/events.h"
#include "hastings/explore/population.h"

namespace hastings {

struct AnnealOptions {
  double scale = 1;  // spread of the first points: three times this
  int64_t particles = 4096;
  uint64_t seed = 1;
};

// `history` gets a row for each temperature.
Population anneal(const Target& target, const AnnealOptions& options, Observer& observer,
                  std::vector<LearnProgress>& history);

}  // namespace hastings
