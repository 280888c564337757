// One self-contained HTML page for a run: verdict, table, plots; opens without a network.
#pragma once

#include <string>

#include "hastings/core/output_folder.h"
#include "hastings/proposal/proposal.h"
#include "hastings/target/target.h"

namespace hastings {

// Reads the run's summary, draws and history, draws the figures into FOLDER/report/, and writes FOLDER/report.html with
// the figures inside. The target and the proposal are needed for the level plot of two-dimensional runs and for the
// meeting times; returns the path of the page.
std::string write_report(OutputFolder& folder, const Target& target, const Proposal& proposal);

}  // namespace hastings
