// A mean with its standard error.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

namespace hastings {

struct MeanError {
  double mean = 0;
  double error = std::numeric_limits<double>::quiet_NaN();  // of fewer than two values nothing is known
};

inline MeanError mean_error(const std::vector<double>& values) {
  MeanError out;
  const auto n = static_cast<double>(values.size());
  double squares = 0;
  for (const double v : values) out.mean += v / n;
  for (const double v : values) squares += (v - out.mean) * (v - out.mean);
  if (values.size() > 1) out.error = std::sqrt(squares / (n - 1) / n);
  return out;
}

}  // namespace hastings
