// A chosen calibration on disk: calibration.json and calibration.safetensors; its witness is in witness.json.
#pragma once

#include <string>

#include "hastings/core/output_folder.h"
#include "hastings/gan/calibrate/choose.h"

namespace hastings {

void save_calibration(OutputFolder& folder, const ChosenCalibration& chosen);
ChosenCalibration load_calibration(const std::string& folder);

}  // namespace hastings
