// The Metropolis–Hastings accept rule, and the scan that applies it to a batch of candidates.
//
// Everything in hastings is decided here. A candidate x' replaces the state x when
//     log u < r,   r = log p(x') + log q(x | x') - log p(x) - log q(x' | x).
// For an independent proposal each point has one number, its log weight w = log p - log q (for a
// generator: the logit of the calibrated discriminator), and r = w(x') - w(x).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "hastings/core/tensor.h"

namespace hastings {

// NaN compares false, so it never accepts.
inline bool accept(double log_u, double log_ratio) { return log_u < log_ratio; }

// r = w(x') - w(x). A candidate whose weight is not finite is impossible (w = -inf), broken (NaN) or a
// trap that no later candidate could leave (+inf): it never replaces anything. A state that is itself
// impossible is left for any finite candidate.
inline double log_ratio(double candidate_weight, double state_weight) {
  if (!std::isfinite(candidate_weight)) return -std::numeric_limits<double>::infinity();
  return candidate_weight - state_weight;
}

// What a chain of independent MH carries on from block to block.
struct ScanState {
  double log_weight = -std::numeric_limits<double>::infinity();
  int64_t run = 0;  // steps spent at the present state, this one included
};

// What is only looked at.
struct ScanInfo {
  int64_t accepted = 0;
  int64_t non_finite = 0;     // candidates rejected for a non-finite weight
  int64_t longest_run = 0;    // longest stay at one state
  double acceptance_sum = 0;  // sum of min(1, e^r), the Rao–Blackwellised count of acceptances

  template <class Archive>
  void fields(Archive& a) {
    a("accepted", accepted);
    a("non_finite", non_finite);
    a("longest_run", longest_run);
    a("acceptance_sum", acceptance_sum);
  }
};

// Runs the chain over a batch of candidates. held[i] is the index of the candidate that is the state
// after step i, or -1 while the state that came in still holds. stat[i] = min(1, e^r) of step i.
void scan(std::span<const double> log_weight, std::span<const double> log_u, ScanState& state, ScanInfo& info,
          std::span<int64_t> held, std::span<double> stat);

// The same rule for one step of many chains at once: [n] log ratios and uniforms to a [n] bool mask.
Tensor accept_mask(const Tensor& log_u, const Tensor& log_ratio);

// Element-wise log_ratio().
Tensor log_ratio(const Tensor& candidate_weight, const Tensor& state_weight);

}  // namespace hastings
