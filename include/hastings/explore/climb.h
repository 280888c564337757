// Quasi-Newton (L-BFGS) ascent of a log density from many points at once. core/lbfgs.h is for one convex function from
// one start; log densities need not be concave, so that a row may fail here and stay.
#pragma once

#include "hastings/target/target.h"

namespace hastings {

// Every row of `from` is a problem of its own, all share each evaluation; rows that fail stay where they are.
Tensor climb(const Target& target, const Tensor& from, int64_t max_iterations = 500);

}  // namespace hastings
