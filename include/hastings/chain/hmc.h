// Hamiltonian Monte Carlo, leapfrog in z = L^-1 x units: momentum is standard normal, forces are L^T grad.
#pragma once

#include "hastings/chain/kernel.h"

namespace hastings {

// One step size for a whole trajectory, varied by the share `jitter` without looking at the state.
std::unique_ptr<Kernel> make_hmc(Density density, const Tensor& factor, double step_size, int leapfrog_steps,
                                 double jitter = 0);

}  // namespace hastings
