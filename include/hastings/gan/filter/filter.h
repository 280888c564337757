// The filter on scores: which proposals become outputs. Everything here sees numbers only; images are made for the
// winners alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hastings/gan/filter/protocol.h"

namespace hastings {

// Fed with the log weights of proposals in the order of their numbers, a block at a time: memory does not grow with
// them (for rejection and top it does, eight bytes a proposal).
class Filter {
 public:
  // `real_scores`: log weights of real images for restarts.
  Filter(const FilterOptions& options, std::vector<double> real_scores, const Streams& streams);
  void feed(std::span<const double> log_weight);
  Filtered finish();
  std::vector<std::string> warnings(const Filtered& filtered) const;

 private:
  std::unique_ptr<Protocol> protocol_;
  int64_t fed_ = 0;
};

}  // namespace hastings
