// Chains as Stan CSV, readable by rstan's read_stan_csv, CmdStan's tools and ArviZ.
#pragma once

#include <string>
#include <vector>

#include "hastings/core/files.h"
#include "hastings/sample/sampler.h"

namespace hastings {

// Names a reader of Stan CSV takes: letters, digits, '_' and '.'.
std::string csv_name(std::string name);

class StanCsv {
 public:
  explicit StanCsv(const std::string& path) : file_(path) {}
  void head(const std::string& target, const SampleOptions& options, int chain, const std::vector<std::string>& names);
  void rows(int64_t n, int64_t width, const double* x, const double* log_prob, const double* accept_stat,
            const double* log_weight);
  // The head again, with the draws there are, and the time they took.
  void finish(const std::string& target, const SampleOptions& options, int chain, const std::vector<std::string>& names,
              double seconds);

 private:
  AtomicFile file_;
  std::vector<char> text_;
};

// The names and rows of a file as written above; DataError naming file and line.
struct StanCsvContent {
  std::vector<std::string> names;  // all columns, lp__ first
  Tensor rows;                     // [n, columns]
};
StanCsvContent read_stan_csv(const std::string& path);

}  // namespace hastings
