// How good calibrated log ratios are.
#pragma once

#include <vector>

#include "hastings/core/tensor.h"

namespace hastings {

// On data that took no part in the calibration.
struct CalibrationQuality {
  double log_loss = 0;        // a proper score; log 2 is what a constant gets
  double log_loss_error = 0;  // its standard error
  double accuracy = 0, auc = 0;
  double z = 0;           // sum (y - d) / sqrt(sum d (1 - d)): standard normal if calibrated (Turner and others 2019)
  double slope = 0;       // of a logistic regression of the truth on the log ratio: 1 if calibrated
  double odds_fake = 0;   // E over generated of d/(1-d): 1 if right
  double odds_real = 0;   // E over real of (1-d)/d: 1 if right
  double weight_ess = 0;  // effective share of generated samples under the weights
  std::vector<double> curve_predicted, curve_observed, curve_error;  // reliability, in bins of equal count
};
CalibrationQuality calibration_quality(const Tensor& real, const Tensor& fake);

}  // namespace hastings
