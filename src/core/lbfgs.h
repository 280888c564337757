// Minimises a smooth convex function of one tensor by L-BFGS with a backtracking line search (Nocedal 1980).
//
// One start and its value, to convergence: for logistic regressions. The ascent of learn/climb.cpp is another
// algorithm: it climbs log densities, which need not be concave, from many starts that share each evaluation.
#pragma once

#include <functional>

#include "hastings/core/tensor.h"

namespace hastings {

struct Minimum {
  Tensor at;
  bool converged = false;
};

// The function gives its value at x and sets the gradient. Converged: the gradient's norm is `tolerance` of the first
// one, or of 1 where that is less; or five steps in a row changed the value by nothing to speak of.
Minimum minimise(Tensor x, const std::function<double(const Tensor& x, Tensor& gradient)>& function, double tolerance);

}  // namespace hastings
