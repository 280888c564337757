// A target: an unnormalised log density, batched, with its gradient, and whatever is known exactly.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hastings/core/random.h"
#include "hastings/core/tensor.h"

namespace hastings {

constexpr int64_t kMaxDim = 100000;  // of any target

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

struct Gradient {
  Tensor log_prob;  // [batch]
  Tensor gradient;  // [batch, dim]
};

class Target {
 public:
  virtual ~Target() = default;

  virtual std::string name() const = 0;
  virtual int64_t dim() const = 0;

  // [batch, dim] double -> [batch] double. Non-finite values are allowed: such points are rejected and counted. Calls
  // may come from several threads at once.
  virtual Tensor log_prob(const Tensor& x) const = 0;

  // Value and gradient, outside any graph: by automatic differentiation of log_prob, unless the target knows better.
  virtual Gradient with_gradient(const Tensor& x) const;

  virtual std::vector<std::string> parameter_names() const;  // x.1, x.2, ...

  // What a user gets to see of a draw: constrained parameters and quantities derived from them, [batch, outputs]. The
  // coordinates, unless the target has constraints. Quantities that are random themselves take their randomness from
  // the stream, row i from its position + i on, so that they do not depend on how draws come in batches.
  virtual std::vector<std::string> output_names() const { return parameter_names(); }
  virtual Tensor outputs(const Tensor& x, Stream&) const { return x; }

  // Data that the density was observed with, by name: for those who check the model against them.
  virtual std::map<std::string, Tensor> observed_data() const { return {}; }

  // The first complaint of a density that could not be evaluated somewhere; empty if there was none.
  virtual std::string complaint() const { return {}; }

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

// Any callable (Tensor[batch, dim]) -> Tensor[batch]; without a gradient of its own it must be built from
// differentiable tensor operations.
std::unique_ptr<Target> make_target(std::string name, int64_t dim, std::function<Tensor(const Tensor&)> log_prob,
                                    std::function<Gradient(const Tensor&)> with_gradient = nullptr);

// NumericalError if the same points have other values the second time: a density that is noisy is no density, and no
// chain on it has it as its law.
void check_repeats(const Target& target, const Tensor& x);

}  // namespace hastings
