// The space in which distances between sets of images are taken.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "../numbers.h"
#include "hastings/gan/calibrate/opinions.h"

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

// What a witness sees or, without one, what the discriminator's last layer sees. Wide features are reduced to their
// leading directions.
class Space {
 public:
  Space(const Opinions& real, const Opinions& fake, bool witness, uint64_t seed);
  at::Tensor operator()(const Opinions& opinions) const;

 private:
  bool witness_;
  std::optional<Projection> project_;
};

}  // namespace hastings
