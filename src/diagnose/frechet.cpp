#include "hastings/diagnose/frechet.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "hastings/core/error.h"

namespace hastings {

FeatureMoments feature_moments(const Tensor& features) {
  FeatureMoments out;
  out.count = features.size(0);
  if (out.count < 2) throw DataError(fmt::format("{} images are too few for a covariance", out.count));
  const Tensor x = features.to(at::kDouble);
  out.mean = x.mean(0);
  const Tensor centred = x - out.mean;
  out.covariance = centred.t().mm(centred) / static_cast<double>(out.count - 1);
  if (!at::isfinite(out.covariance).all().item<bool>()) throw NumericalError("features are not finite");
  return out;
}

double frechet_distance(const FeatureMoments& a, const FeatureMoments& b) {
  // tr (S1 S2)^1/2 = tr (S1^1/2 S2 S1^1/2)^1/2, and that is symmetric.
  const auto [values, vectors] = at::linalg_eigh(a.covariance);
  const Tensor root = (vectors * values.clamp_min(0).sqrt()).mm(vectors.t());
  const Tensor product = root.mm(b.covariance).mm(root);
  const Tensor cross = at::linalg_eigvalsh((product + product.t()) / 2).clamp_min(0).sqrt().sum();
  return ((a.mean - b.mean).square().sum() + a.covariance.trace() + b.covariance.trace() - 2 * cross).item<double>();
}

}  // namespace hastings
