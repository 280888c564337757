// What user-supplied densities return, checked.
#pragma once

#include <string>

#include "hastings/core/tensor.h"

namespace hastings {

std::string shape_of(const Tensor& t);  // "[8, 2]"

// `value` as a [batch] tensor of doubles, or a ConfigError that names the target and both shapes.
Tensor checked_log_prob(const std::string& name, const Tensor& x, const Tensor& value);

}  // namespace hastings
