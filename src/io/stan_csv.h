// Chains as Stan CSV, readable by rstan's read_stan_csv, CmdStan's tools and ArviZ.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hastings/sample/sampler.h"

namespace hastings {

// Names a reader of Stan CSV takes: letters, digits, '_' and '.'.
std::string csv_name(std::string name);

// One chain, whole or not there. `read(first, n)` hands over rows of (outputs [n, width], log density, acceptance, log
// weight), as many as options.draws says.
struct ChainRows {
  Tensor outputs, log_prob, accept_stat, log_weight;
};
void write_stan_csv(const std::string& path, const std::string& target, const SampleOptions& options, int chain,
                    const std::vector<std::string>& names, double seconds,
                    const std::function<ChainRows(int64_t first, int64_t n)>& read);

// The names and rows of a file as written above; DataError naming file and line.
struct StanCsvContent {
  std::vector<std::string> names;  // all columns, lp__ first
  Tensor rows;                     // [n, columns]
};
StanCsvContent read_stan_csv(const std::string& path);

}  // namespace hastings
