// summary.json: what the draws of a run say, and how they were made.
#pragma once

#include <string>

#include "hastings/diagnose/summary.h"
#include "hastings/io/sample_request.h"

namespace hastings {

struct StoredSummary {
  RunSummary summary;
  SampleRequest request;        // its options are those of the draws that are there
  std::vector<double> seconds;  // of all, and of each chain
};

void write_summary(const std::string& path, const StoredSummary& stored);
// ConfigError where there is no run or no draws, DataError where it is damaged.
StoredSummary load_summary(const std::string& folder);

}  // namespace hastings
