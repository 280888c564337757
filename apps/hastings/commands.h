// One function a command; each returns the exit code.
#pragma once

#include <string>

#include "hastings/learn/learner.h"
#include "hastings/sample/sampler.h"
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
  FitOptions fit;
  SampleOptions sample;
  Common common;
};

int list_targets_command(const Common& common);
int fit_command(const RunOptions& options);
int sample_command(const RunOptions& options);
int reproduce_command(const std::string& experiment, const reproduce::Options& options, const Common& common);
int report_command(const std::string& folder, const Common& common);
int summary_command(const std::string& folder, const Common& common);

}  // namespace hastings::app
