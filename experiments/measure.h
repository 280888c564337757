// What both tables measure, and where: the paper's eleven rows, and its effective sample size against the best known
// moments.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hastings/target/target.h"

namespace hastings::reproduce {

// A row of the paper's Table 1.
struct Row {
  std::string name, target;
  int64_t draws;
  // ESS and ESS a second (on a GPU) by method; what the paper leaves open is not there.
  std::map<std::string, double> published = {}, published_speed = {};
  bool posterior() const { return target.rfind("logistic:", 0) == 0; }
};
// `data`: the folder with uci/german.data-numeric, uci/heart.dat and uci/australian.dat.
std::vector<Row> paper_rows(const std::string& data);

// Mean and standard deviation of the statistics: exact, or those of tests/reference/posterior_truth.json (a long run of
// another sampler, read when the program is built) for the posteriors german, heart and australian.
Truth truth_of(const std::string& name, const Target& target);

// The paper's ESS, least over the statistics, autocorrelations averaged over the chains: draws [chains, draws, dim].
double least_ess(const Target& target, const Truth& truth, const Tensor& draws);

// As L2HMC's authors take it: one autocorrelation for all coordinates, which the widest decide, summed over all lags
// where it is above 0.05.
double pooled_ess(const Target& target, const Truth& truth, const Tensor& draws);

// A second opinion that knows nothing of the truth: rank-normalised ESS of all chains together, least over the
// statistics. Unlike the paper's it sees chains that swing around their mean (an autocorrelation below zero ends the
// paper's sum at once).
double least_bulk_ess(const Target& target, const Tensor& draws);

}  // namespace hastings::reproduce
