// Is a density fit to be sampled? Asked before learning, answered in words.
#pragma once

#include <string>
#include <vector>

#include "hastings/target/target.h"

namespace hastings {

struct TargetCheck {
  int64_t dim = 0, outputs = 0;
  int64_t points = 0;                 // starting points looked at
  double finite = 0;                  // share of them with a finite log density
  double gradient_error = 0;          // largest |g.v - difference| / (1 + |g.v|) along random directions
  double batch_error = 0;             // largest difference between a row alone and the row in a batch, relative
  double float_error = 0;             // largest change of the log density when the point is rounded to float
  double value_seconds = 0;           // an evaluation in a batch of 256
  double gradient_seconds = 0;        // the same with gradient
  std::vector<std::string> problems;  // in words; empty: nothing wrong was found
  std::vector<std::string> notes;     // worth knowing, nothing wrong
};

TargetCheck check_target(const Target& target, uint64_t seed);

}  // namespace hastings
