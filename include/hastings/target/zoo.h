// The test densities of the literature, each with all that is known about it exactly.
#pragma once

#include <memory>

#include "hastings/target/target.h"

namespace hastings {

// exp(-(r - 2)^2 / 0.32), r the radius in the plane.
std::unique_ptr<Target> make_ring();
// exp(-min_i (r - i)^2 / 0.04), i = 1..5; statistic: r.
std::unique_ptr<Target> make_ring5();
// Equal mixtures of isotropic Gaussians with the given means [components, dim] and standard deviations.
std::unique_ptr<Target> make_mog2();  // means (+-5, 0), sd 0.5
std::unique_ptr<Target> make_mog6();  // six means on a circle of radius 5, sd 0.5
std::unique_ptr<Target> make_mog();   // means (+-2, 0), variance 0.1
std::unique_ptr<Target> make_toy();   // 1-d: N(-2, 0.5^2)/2 + N(2, 0.7^2)/2
// Zero-mean Gaussian with variances log-spaced from 1e-2 to 1e2.
std::unique_ptr<Target> make_icg(int64_t dim = 50);
// Strongly correlated Gaussian in the plane: variances 1e-2 and 1e2, turned by 45 degrees.
std::unique_ptr<Target> make_scg();
// Standard Gaussian.
std::unique_ptr<Target> make_gaussian(int64_t dim = 2);
// exp(-(x'x / 2 + eta sum cos(x_i / eta))), eta = 0.01, in the plane.
std::unique_ptr<Target> make_rough_well();
// Neal's funnel: x_1 ~ N(0, 3^2), x_i | x_1 ~ N(0, exp(x_1)).
std::unique_ptr<Target> make_funnel(int64_t dim = 2);
// Twisted Gaussian: x_1 ~ N(0, 10^2), x_2 | x_1 ~ N(0.03 (100 - x_1^2), 1).
std::unique_ptr<Target> make_banana();

}  // namespace hastings
