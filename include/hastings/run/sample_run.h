// `hastings sample`: draws of a target by the proposal of its run, which is learned first if there is none.
#pragma once

#include "hastings/io/stored_fit.h"
#include "hastings/io/stored_summary.h"
#include "hastings/run/fit_run.h"

namespace hastings {

struct SampleRunRequest {
  FitRequest fit;  // its target may be the folder of a run
  SampleRequest sample;
  int64_t more = 0;     // draws to add to each chain of a finished run
  bool resume = false;  // go on with a sampling that was killed
  std::function<void(const std::string&)> note = [](const std::string&) {};  // e.g. that a proposal is there already
};

struct SampleOutcome {
  std::string run;
  StoredSummary stored;
  std::string stopped;       // draws | target-ess | max-seconds | interrupted
  int64_t resumed_from = 0;  // draws that were there already
};

SampleOutcome sample_run(const SampleRunRequest& request, Observer& observer);

// Runs the chains of a request into the folder, from the start or (`more` > 0) going on from the finished run there, or
// from where the same request was killed. Ends with what there is when the observer asks to stop.
SampleOutcome sample_into(OutputFolder& folder, const Target& target, const StoredFit& stored, SampleRequest request,
                          int64_t more, Observer& observer);

// The request of the finished run, or of the one that was interrupted; ConfigError if there is none.
SampleRequest finished_request(const std::string& folder);
SampleRequest interrupted_request(const std::string& folder);

}  // namespace hastings
