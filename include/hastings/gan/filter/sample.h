// A calibrated GAN's outputs.
#pragma once

#include "hastings/gan/calibrate/choose.h"
#include "hastings/gan/filter/propose.h"

namespace hastings {

struct GanSamples {
  Filtered filtered;
  double network_seconds = 0, other_seconds = 0;  // scoring and rendering; everything else
  std::vector<std::string> warnings;              // a chain that hardly moved says so
};

// Which proposals become outputs, by each of several protocols on the very same proposals, which go through the
// networks once. Images are made by Proposals::render.
std::vector<GanSamples> filter_proposals(const Proposals& proposals, const ChosenCalibration& chosen,
                                         const std::vector<FilterOptions>& protocols, const Streams& streams,
                                         Observer& observer);

}  // namespace hastings
