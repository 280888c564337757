// What the draws of a run say: diagnosis of those that are stored, and of the candidates' weights.
#pragma once

#include "hastings/io/stored_fit.h"
#include "hastings/run/run_writer.h"

namespace hastings {

RunSummary summarise_run(const Target& target, const SampleOptions& options, const SampleReport& report,
                         const RunWriter& writer, const StoredFit& stored);

}  // namespace hastings
