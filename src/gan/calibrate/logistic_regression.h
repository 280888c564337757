// Logistic regression of real against generated rows, both classes weighing the same.
#pragma once

#include "hastings/core/tensor.h"

namespace hastings {

// Where classes separate, a slope would run away: the faintest of ridges.
constexpr double kFaintRidge = 1e3;

// `rows` [n, k], the first `real` of them real; ridge 1/(2 C n) |w|^2 on the first `penalised` columns. Returns [k + 1]
// double, the bias last. NumericalError if it does not converge.
Tensor logistic_regression(const Tensor& rows, int64_t real, double c, int64_t penalised, const Tensor& start = {});

}  // namespace hastings
