// Effective sample sizes, R-hat and Monte-Carlo standard errors. Pure functions of draws [chains, draws].
#pragma once

#include "hastings/core/tensor.h"

namespace hastings {

// The paper's (appendix C.1): N / (1 + 2 sum (1 - s/N) rho_s), rho_s from the TRUE mean and standard deviation,
// averaged over the chains, summed while rho_s > 0.05. N is the length of one chain.
double paper_ess(const Tensor& draws, double mean, double sd);

// Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021): rank-normalised, split chains. NaN where undefined
// (fewer than four draws a chain, a constant quantity).
double rhat(const Tensor& draws);  // the larger of the bulk's and the folded draws'
double bulk_ess(const Tensor& draws);
double least_bulk_ess(const Tensor& statistics);  // of several quantities [chains, draws, quantities]
double tail_ess(const Tensor& draws);             // the smaller of the 5 % and 95 % quantiles'
double mean_ess(const Tensor& draws);
double sd_ess(const Tensor& draws);
double quantile_ess(const Tensor& draws, double probability);

double mcse_mean(const Tensor& draws);
double mcse_sd(const Tensor& draws);
double mcse_quantile(const Tensor& draws, double probability);

// Quantile with linear interpolation of order statistics (type 7), over all draws.
double sample_quantile(const Tensor& draws, double probability);

// Autocovariance of a sequence, biased (divided by n), by fast Fourier transform.
Tensor autocovariance(const Tensor& x);

}  // namespace hastings
