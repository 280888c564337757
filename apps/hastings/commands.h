// One function a command; each returns the exit code.
#pragma once

#include <string>

#include "hastings/io/run_folder.h"
#include "hastings/learn/fit.h"
#include "reproduce.h"

namespace hastings::app {

struct Common {
  bool json = false;
  bool quiet = false;
};

struct RunOptions {
  std::string target;  // a target, or (sample, summary) the folder of a run
  std::string output;  // folder; empty: runs/TARGET
  bool overwrite = false;
  std::string data;            // of a Stan program
  std::string stan_toolchain;  // its folder
  bool resume = false;
  int64_t more = 0;  // draws to add to a finished run
  double checkpoint_seconds = 5;
  FitOptions fit;
  SampleRequest sample;
  Common common;
};

int list_targets_command(const Common& common);
int fit_command(const RunOptions& options);
int sample_command(const RunOptions& options);
int reproduce_command(const std::string& experiment, const reproduce::Options& options, const Common& common);
int check_command(const RunOptions& options);
int convert_command(const std::string& folder, const std::string& to, const RunOptions& options);
int report_command(const std::string& folder, const RunOptions& options);
int summary_command(const std::string& folder, const Common& common);

}  // namespace hastings::app
