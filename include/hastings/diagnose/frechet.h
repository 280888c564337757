// The Fréchet distance between two sets of points, by their first two moments.
#pragma once

#include "hastings/core/tensor.h"

namespace hastings {

// Mean and covariance (by n - 1), in double.
struct FeatureMoments {
  Tensor mean, covariance;  // [d], [d, d]
  int64_t count = 0;
};
FeatureMoments feature_moments(const Tensor& features);  // [n, d]

// |m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^1/2), by two symmetric eigendecompositions.
double frechet_distance(const FeatureMoments& a, const FeatureMoments& b);

}  // namespace hastings
