// Helpers shared by the tests.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "hastings/core/error.h"
#include "hastings/core/random.h"
#include "hastings/target/target.h"

namespace hastings::test {

inline Tensor doubles(std::vector<double> values) { return at::tensor(values, at::kDouble); }

// Largest |a - b|.
inline double gap(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

// The mean of independent values [n] against the truth, in standard errors.
inline double z_score(const Tensor& values, double truth) {
  const double error = values.std(true).item<double>() / std::sqrt(static_cast<double>(values.size(0)));
  return (values.mean().item<double>() - truth) / error;
}

// What a failure says to the user.
inline std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace hastings::test
