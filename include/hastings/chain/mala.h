// The Metropolis-adjusted Langevin algorithm: x' = x + (e^2 / 2) C grad + e L z, C = L L^T.
#pragma once

#include "hastings/chain/kernel.h"

namespace hastings {

std::unique_ptr<Kernel> make_mala(Density density, const Tensor& factor, double step_size);

}  // namespace hastings
