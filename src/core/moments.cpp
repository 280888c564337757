#include "hastings/core/moments.h"

#include <ATen/ATen.h>

namespace hastings {

Moments moments(const Tensor& x, const Tensor& weight) {
  const Tensor w = weight.defined() ? weight : at::full({x.size(0)}, 1.0 / static_cast<double>(x.size(0)), at::kDouble);
  const Tensor mean = at::matmul(w, x), centred = x - mean;
  const double left = 1 - w.square().sum().item<double>();  // 1 - 1/n for equal weights
  const Tensor covariance = at::matmul((centred * w.unsqueeze(1)).t(), centred) / left;
  return {mean, at::linalg_cholesky(covariance + at::diag(covariance.diagonal() * 1e-9 + 1e-300))};
}

}  // namespace hastings
