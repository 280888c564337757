// What the candidates' log weights w = log p - log q tell: the evidence, and whether their tail can be trusted.
#pragma once

#include <span>

namespace hastings {

struct Evidence {
  double log_z = 0;  // log of the integral of exp(log_prob)
  double error = 0;  // standard error of log_z (delta method)
  double share = 0;  // effective share of the candidates, (sum w)^2 / (n sum w^2)
};
// Candidates with non-finite weights count with weight zero.
Evidence log_evidence(std::span<const double> log_weights);

// KL(q|p) + KL(p|q) from candidates alone: sum_i v_i w_i - mean_i w_i with v the normalised weights. Never negative,
// and less noisy than with draws of the chain, since both means are over the same points.
double symmetric_kl(std::span<const double> log_weights);

// Shape k of a generalised Pareto fit to the largest weights (Zhang and Stephens 2009, with the prior of Vehtari et
// al. 2024). Below 0.7 averages over the weights can be trusted; above 1 they have no mean. -inf if there is no tail.
double pareto_k(std::span<const double> log_weights);

}  // namespace hastings
