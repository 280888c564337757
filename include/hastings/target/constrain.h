// Parameters with constraints: sampling happens in unconstrained coordinates u, the user's density is a function of
// constrained ones x(u), and log |dx/du| is added exactly.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hastings/target/target.h"

namespace hastings {

enum class Constraint {
  kFree,
  kLower,     // x = low + e^u; positive: low = 0
  kUpper,     // x = high - e^u
  kInterval,  // x = low + (high - low) sigmoid(u)
  kSimplex,   // sums to one, by stick-breaking; one coordinate fewer
  kOrdered,   // increasing: x_1 = u_1, x_k = x_{k-1} + e^{u_k}
};

struct Parameter {
  std::string name;
  int64_t size = 0;  // 0: a scalar; else a vector of this many elements
  Constraint constraint = Constraint::kFree;
  double low = 0, high = 1;
};

class Constraints {
 public:
  explicit Constraints(std::vector<Parameter> parameters);  // ConfigError if one makes no sense

  int64_t dim() const { return dim_; }         // of u
  int64_t outputs() const { return output_; }  // of x

  struct Point {
    Tensor x;             // [batch, outputs]
    Tensor log_jacobian;  // [batch]
  };
  Point constrain(const Tensor& u) const;  // differentiable
  Tensor unconstrain(const Tensor& x) const;

  std::vector<std::string> names() const;                // tau, theta.1, theta.2, ...
  std::vector<std::string> unconstrained_names() const;  // the same without the last element of a simplex

 private:
  std::vector<Parameter> parameters_;
  int64_t dim_ = 0, output_ = 0;
};

// `log_prob`: a density of constrained parameters, [batch, outputs] -> [batch].
std::unique_ptr<Target> make_constrained(std::string name, std::vector<Parameter> parameters,
                                         std::function<Tensor(const Tensor&)> log_prob,
                                         std::map<std::string, Tensor> observed_data = {});

}  // namespace hastings
