// The one place that names the tensor type. ATen alone: torch/torch.h stays out of public headers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace hastings {

using at::Tensor;

}  // namespace hastings
