// One entry a calibrator, each in the file of its name.
#pragma once

#include "hastings/gan/calibrate/calibrate.h"

namespace hastings {

CalibratorEntry none_calibrator();
CalibratorEntry platt_calibrator();
CalibratorEntry beta_calibrator();
CalibratorEntry isotonic_calibrator();
// linear.cpp
CalibratorEntry head_calibrator();
CalibratorEntry refit_calibrator();
CalibratorEntry witness_calibrator();
CalibratorEntry logit_witness_calibrator();

inline bool needs_no_more(const Calibration&) { return true; }

}  // namespace hastings
