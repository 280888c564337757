// The objectives of learning, for both settings: functions of the log weights alone.
//
// With w = log p - log q (or the logit of a discriminator) at states x_i ~ p and candidates x'_j ~ q,
// r_ij = w(x'_j) - w(x_i):
//   AR    loss = -mean_ij min(1, e^{r_ij})              the acceptance rate itself
//   ARLB  loss = -mean_ij r_ij                          the symmetric KL; AR >= 1 - sqrt(loss / 2)
//   VI    loss = -mean_j w(x'_j)                        the reverse KL up to a constant
// AR is averaged over all pairs, not only matching ones: the same expectation with less noise, and in
// O(K log K) by sorting.
#pragma once

#include <string>

#include "hastings/core/tensor.h"

namespace hastings {

enum class Objective { kAr, kArlb, kVi };

Objective parse_objective(const std::string& name);  // ar | arlb | vi
std::string to_string(Objective objective);

struct ObjectiveValue {
  double loss = 0;
  double acceptance = 0;    // estimate of AR, whichever the objective
  double symmetric_kl = 0;  // estimate of KL(q|p) + KL(p|q)
  Tensor grad_candidate;    // [K] d loss / d w(x'_j)
  Tensor grad_state;        // [K] d loss / d w(x_i)
  int64_t non_finite = 0;   // weights left out of loss and gradient
};

// Log weights [K'], [K] in double. A candidate with a non-finite weight counts as never accepted.
ObjectiveValue evaluate(Objective objective, const Tensor& candidate, const Tensor& state);

// 1 - sqrt(KL_sym / 2), the lower bound on the acceptance rate (Pinsker); may be negative.
double acceptance_lower_bound(double symmetric_kl);

}  // namespace hastings
