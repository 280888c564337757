// One table of what the draws say, and a verdict on them in words.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hastings/core/tensor.h"
#include "hastings/diagnose/meeting.h"

namespace hastings {

struct ParameterSummary {
  std::string name;
  double mean = 0, mcse = 0, sd = 0, mad = 0, q5 = 0, q50 = 0, q95 = 0;
  double ess_bulk = 0, ess_tail = 0, rhat = 0;
};

struct RunSummary {
  std::vector<ParameterSummary> parameters;
  int64_t chains = 0, draws = 0;
  double acceptance = 0, acceptance_low = 0, acceptance_high = 0;  // 95 % interval
  double acceptance_bound = 0;  // 1 - sqrt(symmetric KL / 2), from the sampled weights
  double log_z = 0, log_z_error = 0;
  double pareto_k = 0;
  double weight_share = 0;  // effective share of the candidates
  int64_t longest_run = 0, non_finite = 0, proposed = 0;
  double learned_acceptance = 0;  // as learning saw it, against the buffer's points; 0: not known
  double learn_seconds = 0, sample_seconds = 0;
  double min_ess_bulk = 0, min_ess_tail = 0, max_rhat = 0;
  double ess_per_second = 0;  // of sampling alone
  double ess_per_second_with_learning = 0;
  // From coupled chains; negative where there was no certificate (local moves).
  int64_t mixing_steps = -1;  // steps after which the distance to stationarity is below 0.01
  int64_t pairs_not_met = 0;
  std::string local_moves = "none";  // mixed in with the independent ones
  double local_share = 0;            // of the steps
  double independent_acceptance = 0;
  bool good = false;
  std::vector<std::string> verdict;  // one sentence each
};

// `column(i)` hands over parameter i as [chains, draws]; only one is in memory at a time.
std::vector<ParameterSummary> summarise_parameters(const std::vector<std::string>& names,
                                                   const std::function<Tensor(int64_t)>& column);
ParameterSummary summarise_parameter(const std::string& name, const Tensor& draws);

// 95 % interval of the acceptance rate from the chains' step-wise acceptance probabilities [chains, draws], allowing
// for their autocorrelation.
void acceptance_interval(const Tensor& accept_stat, double& mean, double& low, double& high);

// Fills min_ess_*, max_rhat, ess_per_second*, good and verdict from the rest.
void judge(RunSummary& summary);

}  // namespace hastings
