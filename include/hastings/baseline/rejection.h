// Rejection sampling, where a bound M on p/q is known.
#pragma once

#include "hastings/proposal/proposal.h"
#include "hastings/target/target.h"

namespace hastings {

struct RejectionResult {
  Tensor x;                // [n, dim], exact and independent draws
  int64_t candidates = 0;  // it took
  int64_t above = 0;       // candidates with p/q > M: the bound does not hold, the draws are not exact
  double acceptance() const {
    return candidates > 0 ? static_cast<double>(x.size(0)) / static_cast<double>(candidates) : 0;
  }
};

// Accepts x ~ q when log u < log p(x) - log q(x) - log_m, until n draws are kept. ConfigError if fewer than one in a
// million is accepted.
RejectionResult rejection_sample(const Target& target, const Proposal& proposal, double log_m, int64_t n,
                                 Stream& stream);

}  // namespace hastings
