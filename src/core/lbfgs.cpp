#include "lbfgs.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <vector>

namespace hastings {
namespace {

constexpr size_t kMemory = 12;
constexpr int kMaxSteps = 2000, kMaxHalvings = 40, kStill = 5;

// The last steps s and the changes y of the gradient along them: a model of the inverse Hessian.
class Curvature {
 public:
  bool empty() const { return pairs_.empty(); }
  void forget() { pairs_.clear(); }

  // Only pairs of positive curvature, s y > 0, keep the direction one of descent.
  void add(const Tensor& s, const Tensor& y) {
    if (s.dot(y).item<double>() > 1e-12 * y.dot(y).item<double>()) pairs_.emplace_back(s, y);
    if (pairs_.size() > kMemory) pairs_.pop_front();
  }

  // -H gradient by the two-loop recursion; without a pair, the gradient of length 1 at the start.
  Tensor direction(const Tensor& gradient, double first_norm) const {
    Tensor direction = -gradient;
    std::vector<double> alpha;
    for (auto p = pairs_.rbegin(); p != pairs_.rend(); ++p) {
      alpha.push_back(p->first.dot(direction).item<double>() / p->first.dot(p->second).item<double>());
      direction = direction - alpha.back() * p->second;
    }
    if (!pairs_.empty()) {
      const auto& [s, y] = pairs_.back();
      direction = direction * (s.dot(y) / y.dot(y)).item<double>();
    } else {
      direction = direction / first_norm;
    }
    for (const auto& [s, y] : pairs_) {
      const double beta = y.dot(direction).item<double>() / s.dot(y).item<double>();
      direction = direction + (alpha.back() - beta) * s;
      alpha.pop_back();
    }
    return direction;
  }

 private:
  std::deque<std::pair<Tensor, Tensor>> pairs_;
};

}  // namespace

Minimum minimise(Tensor x, const std::function<double(const Tensor&, Tensor&)>& function, double tolerance) {
  Tensor gradient;
  double value = function(x, gradient);
  const double first = std::max(gradient.norm().item<double>(), 1e-12);
  Curvature curvature;
  int still = 0;  // steps in a row that changed the value by nothing to speak of
  for (int step = 0; step < kMaxSteps; ++step) {
    if (gradient.norm().item<double>() <= tolerance * std::max(1.0, first)) return {x, true};
    const Tensor direction = curvature.direction(gradient, first);
    const double descent = gradient.dot(direction).item<double>();
    double length = 1;
    Tensor next, next_gradient;
    double next_value = 0;
    for (int tries = 0;; ++tries) {
      next = x + length * direction;
      next_value = function(next, next_gradient);
      if (next_value <= value + 1e-4 * length * descent) break;
      // No further descent within rounding: this is the minimum, or the memory has gone stale.
      if (tries == kMaxHalvings) break;
      length /= 2;
    }
    if (!(next_value < value)) {
      if (curvature.empty()) return {x, gradient.norm().item<double>() <= 1e-2 * std::max(1.0, first)};
      curvature.forget();
      continue;
    }
    curvature.add(next - x, next_gradient - gradient);
    still = value - next_value <= 1e-9 * std::abs(value) ? still + 1 : 0;
    x = next;
    gradient = next_gradient;
    value = next_value;
    if (still == kStill) return {x, true};
  }
  return {x, false};
}

}  // namespace hastings
