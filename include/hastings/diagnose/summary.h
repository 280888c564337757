// One table of what the draws say, and a verdict on them in words.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hastings/core/tensor.h"
#include "hastings/diagnose/meeting.h"

namespace hastings {

struct ParameterSummary {
  std::string name;
  double mean = 0, mcse = 0, sd = 0, mad = 0, q5 = 0, q50 = 0, q95 = 0;
  double ess_bulk = 0, ess_tail = 0, rhat = 0;

  template <class Archive>
  void fields(Archive& a) {
    a("name", name);
    a("mean", mean);
    a("mcse", mcse);
    a("sd", sd);
    a("mad", mad);
    a("q5", q5);
    a("q50", q50);
    a("q95", q95);
    a("ess_bulk", ess_bulk);
    a("ess_tail", ess_tail);
    a("rhat", rhat);
  }
};

struct RunSummary {
  std::vector<ParameterSummary> parameters;
  int64_t chains = 0, draws = 0;
  double acceptance = 0;
  std::array<double, 2> acceptance_interval{};  // 95 %
  double acceptance_bound = 0;                  // 1 - sqrt(symmetric KL / 2), from the sampled weights
  double log_z = 0, log_z_error = 0;
  double pareto_k = 0;
  double weight_share = 0;  // effective share of the candidates
  int64_t longest_run = 0, non_finite = 0, proposed = 0;
  double learned_acceptance = 0;  // as learning saw it, against the buffer's points; 0: not known
  double learn_seconds = 0, sample_seconds = 0;
  double min_ess_bulk = 0, min_ess_tail = 0, max_rhat = 0;
  double ess_per_second = 0;  // of sampling alone
  double ess_per_second_with_learning = 0;
  // From coupled chains: steps after which the distance to stationarity is below 0.01. None with local moves.
  std::optional<int64_t> mixing_steps;
  int64_t pairs_not_met = 0;
  std::string local_moves = "none";  // mixed in with the independent ones
  double local_share = 0;            // of the steps
  double independent_acceptance = 0;
  bool good = false;
  std::vector<std::string> verdict;  // one sentence each

  template <class Archive>
  void fields(Archive& a) {
    a("parameters", parameters);
    a("chains", chains);
    a("draws", draws);
    a("acceptance", acceptance);
    a("acceptance_interval", acceptance_interval);
    a("acceptance_lower_bound", acceptance_bound);
    a("log_evidence", log_z);
    a("log_evidence_error", log_z_error);
    a("pareto_k", pareto_k);
    a("weight_share", weight_share);
    a("longest_run", longest_run);
    a("non_finite", non_finite);
    a("proposed", proposed);
    a("learned_acceptance", learned_acceptance);
    a("learn_seconds", learn_seconds);
    a("sample_seconds", sample_seconds);
    a("min_ess_bulk", min_ess_bulk);
    a("min_ess_tail", min_ess_tail);
    a("max_rhat", max_rhat);
    a("ess_per_second", ess_per_second);
    a("ess_per_second_with_learning", ess_per_second_with_learning);
    a("mixing_steps", mixing_steps);
    a("pairs_not_met", pairs_not_met);
    a("local_moves", local_moves);
    a("local_share", local_share);
    a("independent_acceptance", independent_acceptance);
    a("good", good);
    a("verdict", verdict);
  }
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
