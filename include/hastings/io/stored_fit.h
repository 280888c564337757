// What a fit leaves in the folder of a run: config.json, proposal.pt, history.csv.
#pragma once

#include <memory>
#include <string>

#include "hastings/core/output_folder.h"
#include "hastings/learn/fit.h"

namespace hastings {

std::string version();  // of hastings

struct StoredFit {
  std::string target;  // its name
  FlowSpec flow;       // as resolved
  std::unique_ptr<Proposal> proposal;
  double learn_seconds = 0, learned_acceptance = 0, chain_acceptance = 0;
  std::string config;  // config.json, as text
};

// True if there is a finished fit in the folder.
bool is_run(const std::string& folder);

// A run is there when its proposal is: that comes last, and goes first where a run is replaced, with all its draws but
// what `keep` names.
void save_fit(OutputFolder& folder, const Target& target, const FitOptions& options, const Fit& fit,
              const std::string& keep = "");
StoredFit load_fit(const std::string& folder, int64_t dim);
std::string stored_target(const std::string& folder);

}  // namespace hastings
