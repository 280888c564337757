// Mean and spread of a cloud of points.
#pragma once

#include "hastings/core/tensor.h"

namespace hastings {

struct Moments {
  Tensor mean;    // [dim]
  Tensor factor;  // [dim, dim] lower triangular: covariance = factor factor^T
};

// Of the rows of x [n, dim], by weight [n] (of sum 1) if given. Directions without spread get next to none, never zero.
Moments moments(const Tensor& x, const Tensor& weight = {});

}  // namespace hastings
