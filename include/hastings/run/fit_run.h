// `hastings fit`: a target's proposal, learned into the folder of a run.
#pragma once

#include <functional>
#include <string>

#include "hastings/core/events.h"
#include "hastings/core/output_folder.h"
#include "hastings/learn/fit.h"
#include "hastings/target/registry.h"

namespace hastings {

// Which target, as a user names it.
struct TargetRequest {
  std::string target;
  std::string data;   // of a Stan program
  TargetOptions how;  // its `tell` is told what takes time
  std::string spec() const { return data.empty() ? target : target + " data=" + data; }
  std::unique_ptr<Target> open() const { return find_target(spec(), how); }
};

struct FitRequest {
  TargetRequest target;  // with `resume` its name is the folder of a run
  std::string output;    // folder; empty: runs/TARGET
  bool overwrite = false, resume = false;
  double checkpoint_seconds = 5;
  FitOptions options;
};

struct FitOutcome {
  std::string run, target, start, stopped;
  double acceptance = 0, acceptance_lower_bound = 0, seconds = 0;
  int64_t iterations = 0;

  template <class Archive>
  void fields(Archive& a) {
    a("run", run);
    a("target", target);
    a("acceptance", acceptance);
    a("acceptance_lower_bound", acceptance_lower_bound);
    a("start", start);
    a("iterations", iterations);
    a("stopped", stopped);
    a("seconds", seconds);
  }
};

FitOutcome fit_run(const FitRequest& request, Observer& observer);

// runs/mog6, runs/icg-100, runs/logistic-german, runs/stan-schools
std::string default_folder(const std::string& target);

// Learns, and stores the fit in a folder that is held already.
FitOutcome fit_into(OutputFolder& folder, const Target& target, const FitRequest& request, Observer& observer);

}  // namespace hastings
