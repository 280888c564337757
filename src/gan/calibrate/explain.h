// Why a calibration was chosen, in sentences.
#pragma once

#include "hastings/gan/calibrate/choose.h"

namespace hastings {

// Adds to the reasons and warnings.
void explain(ChosenCalibration& chosen, const CalibrateOptions& options);

}  // namespace hastings
