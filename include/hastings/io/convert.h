// The draws of a run in other formats.
#pragma once

#include <string>
#include <vector>

#include "hastings/core/output_folder.h"
#include "hastings/target/target.h"

namespace hastings {

// draws.npz -> chain-N.csv or draws.nc (NetCDF as ArviZ's InferenceData); chain-N.csv -> draws.npz. Returns the files.
// The target, where there is one, is asked for the data it was observed with.
std::vector<std::string> convert_draws(OutputFolder& folder, const std::string& to, const Target* target);

}  // namespace hastings
