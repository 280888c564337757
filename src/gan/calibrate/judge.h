// How near the outputs of a protocol come to held-out images: Fréchet distances with errors, in one space of features.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string>
#include <vector>

#include "../numbers.h"
#include "hastings/diagnose/frechet.h"
#include "hastings/gan/calibrate/choose.h"

namespace hastings {

// The leading principal directions of standardised features, by subspace iteration.
class Projection {
 public:
  Projection(const at::Tensor& features, uint64_t seed);
  at::Tensor operator()(const at::Tensor& features) const { return standardise_(features).mm(directions_); }

 private:
  Standardiser standardise_;
  at::Tensor directions_;  // [w, d]
};

// Where distances are taken: in what a witness sees or, without one, in what the discriminator's last layer sees. Wide
// features are reduced to their leading directions.
class Space {
 public:
  Space(const Opinions& real, const Opinions& fake, bool witness, uint64_t seed);
  at::Tensor operator()(const Opinions& opinions) const;

 private:
  bool witness_;
  std::optional<Projection> project_;
};

// A calibration with what it says of held-out images.
struct Setting {
  Calibration calibration;
  std::vector<double> real_scores;
  CalibrationQuality quality;
};

class Judge {
 public:
  static constexpr int kParts = 8;  // of proposals and of images, each against its own: for errors

  // Rows of features: of numbered proposals, and of held-out images.
  Judge(at::Tensor proposals, const at::Tensor& real, int64_t per_output, uint64_t seed);

  // The outputs a protocol makes of the proposals by these log weights. The error is that of the difference from the
  // plain generator, whose outputs are judged by the same images.
  Trial trial(ProtocolKind protocol, const Setting& setting, const at::Tensor& weights) const;
  const Trial& plain() const { return plain_; }

 private:
  // `distances` becomes those of the parts.
  Trial measure(ProtocolKind protocol, const Setting& setting, const at::Tensor& weights,
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
