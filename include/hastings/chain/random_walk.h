// x' = x + step L z, z standard normal: symmetric.
#pragma once

#include "hastings/chain/kernel.h"

namespace hastings {

// `factor` [dim, dim]: L, lower triangular.
std::unique_ptr<Kernel> make_random_walk(Density density, const Tensor& factor, double step_size);

}  // namespace hastings
