// Options that several commands on runs share.
#pragma once

#include "command.h"
#include "hastings/run/fit_run.h"

namespace hastings::app {

void add_target_options(CLI::App& command, TargetRequest& target);
void add_toolchain(CLI::App& command, TargetOptions& how, const char* what);
// Where a run is, its seed and threads.
struct Seeds {
  uint64_t seed = 1;
  int threads = 0;
};
void add_run_options(CLI::App& command, FitRequest& request, Seeds& seeds, Voice& voice);
void add_seed(CLI::App& command, uint64_t& seed, const char* of);
void add_checkpoint(CLI::App& command, double& seconds);
// `sampling`: --max-seconds is that of sampling.
void add_fit_options(CLI::App& command, FitOptions& options, bool sampling);
void set_seeds(FitOptions& options, const Seeds& seeds);

}  // namespace hastings::app
