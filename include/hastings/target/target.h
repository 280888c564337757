// A target: an unnormalised log density, batched, with its gradient, and whatever is known exactly.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hastings/core/random.h"
#include "hastings/core/tensor.h"

namespace hastings {

// Exact facts about a target; a tensor that is undefined is not known.
struct Truth {
  Tensor mean;                  // [statistics]
  Tensor sd;                    // [statistics]
  std::optional<double> log_z;  // log of the integral of exp(log_prob)
};

// Regions of the space with exactly known probability: modes of a mixture, rings.
struct Regions {
  std::vector<std::string> names;
  Tensor weights;  // [regions], sums to 1
};

class Target {
 public:
  virtual ~Target() = default;

  virtual std::string name() const = 0;
  virtual int64_t dim() const = 0;

  // [batch, dim] double -> [batch] double, differentiable. Non-finite values are allowed: such points
  // are rejected and counted.
  virtual Tensor log_prob(const Tensor& x) const = 0;

  virtual std::vector<std::string> parameter_names() const;  // x.1, x.2, ...

  // The quantities the published effective sample sizes are taken of: [batch, dim] -> [batch, s]. The
  // coordinates, unless the literature uses another (the radius for ring5).
  virtual Tensor statistics(const Tensor& x) const { return x; }

  virtual Truth truth() const { return {}; }  // of the statistics
  virtual bool has_exact_sampler() const { return false; }
  virtual Tensor exact_draws(int64_t n, Stream& stream) const;  // [n, dim]
  virtual std::optional<Regions> regions() const { return std::nullopt; }
  virtual Tensor region_of(const Tensor& x) const;  // [batch] int64

  // A rough length scale of the space around the origin; starting points are spread over it.
  virtual double scale() const { return 1.0; }
};

struct Gradient {
  Tensor log_prob;  // [batch]
  Tensor gradient;  // [batch, dim]
};

// Value and gradient at x, outside any graph.
Gradient log_prob_and_gradient(const Target& target, const Tensor& x);

// Any callable (Tensor[batch, dim]) -> Tensor[batch] built from differentiable tensor operations.
std::unique_ptr<Target> make_target(std::string name, int64_t dim, std::function<Tensor(const Tensor&)> log_prob);

}  // namespace hastings
