// Ways to sample on trial: how near the outputs of each come to held-out images. Fréchet distances with errors, in one
// space of features.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "hastings/diagnose/frechet.h"
#include "hastings/gan/calibrate/quality.h"
#include "hastings/gan/calibrate/trial.h"

namespace hastings {

// A calibration with what it says of held-out images.
struct Fitted {
  Calibration calibration;
  std::vector<double> real_scores;
  CalibrationQuality quality;
};

class Trials {
 public:
  static constexpr int kParts = 8;  // of proposals and of images, each against its own: for errors

  // Rows of features: of numbered proposals, and of held-out images.
  Trials(at::Tensor proposals, const at::Tensor& real, int64_t per_output, uint64_t seed);

  // The outputs a protocol makes of the proposals by these log weights. The error is that of the difference from the
  // plain generator, whose outputs are held against the same images.
  Trial run(ProtocolKind protocol, const Fitted& fitted, const at::Tensor& weights) const;
  const Trial& plain() const { return plain_; }

 private:
  // `distances` becomes those of the parts.
  Trial measure(ProtocolKind protocol, const Fitted& fitted, const at::Tensor& weights,
                std::vector<double>& distances) const;

  at::Tensor features_;
  FeatureMoments real_;
  std::vector<FeatureMoments> real_parts_;
  int64_t per_output_;
  uint64_t seed_;
  Trial plain_;
  std::vector<double> plain_distances_;
};

}  // namespace hastings
