// Adam (Kingma and Ba 2015) on one flat vector of parameters.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace hastings {

class Adam {
 public:
  // `rates`: a factor on the learning rate for each parameter; 0 keeps it fixed.
  explicit Adam(std::vector<double> rates) : rates_(std::move(rates)), first_(rates_.size()), second_(rates_.size()) {}

  template <class Archive>
  void fields(Archive& a) {
    a("first", first_);
    a("second", second_);
    a("steps", steps_);
  }

  void forget() {
    std::fill(first_.begin(), first_.end(), 0.0);
    std::fill(second_.begin(), second_.end(), 0.0);
    steps_ = 0;
  }

  void step(std::span<const double> gradient, double rate, std::span<double> parameters) {
    ++steps_;
    const double scale = rate * std::sqrt(1 - std::pow(kBeta2, steps_)) / (1 - std::pow(kBeta1, steps_));
    const size_t n = rates_.size();
#pragma omp simd
    for (size_t i = 0; i < n; ++i) {
      first_[i] += (1 - kBeta1) * (gradient[i] - first_[i]);
      second_[i] += (1 - kBeta2) * (gradient[i] * gradient[i] - second_[i]);
      parameters[i] -= scale * rates_[i] * first_[i] / (std::sqrt(second_[i]) + kEpsilon);
    }
  }

 private:
  static constexpr double kBeta1 = 0.9, kBeta2 = 0.99, kEpsilon = 1e-8;
  std::vector<double> rates_, first_, second_;
  int64_t steps_ = 0;
};

}  // namespace hastings
