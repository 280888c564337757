// State-dependent kernels, for a batch of chains at once: random walk, MALA, HMC, and the mixture of an
// independent proposal with a random walk. Each leaves exp(log_prob) invariant.
#pragma once

#include <functional>
#include <memory>

#include "hastings/core/random.h"
#include "hastings/core/tensor.h"

namespace hastings {

struct Evaluated {
  Tensor log_prob;  // [n]
  Tensor gradient;  // [n, dim], only when asked for
};
// The density a kernel works on: value, and the gradient if the second argument says so.
using Density = std::function<Evaluated(const Tensor& x, bool with_gradient)>;

// What a batch of chains carries on.
struct LocalState {
  Tensor x;         // [n, dim]
  Tensor log_prob;  // [n]
  Tensor gradient;  // [n, dim]; kernels that use gradients keep it current
};

// What is only looked at.
struct LocalInfo {
  Tensor accepted;     // [n] bool
  Tensor accept_prob;  // [n] min(1, e^r)
  int64_t non_finite = 0;
};

// The state-dependent step: a candidate replaces the state by the accept rule with
// r = log p(x') - log p(x) + log_reverse - log_forward, where log_forward = log q(x' | x). Undefined terms
// are zero (symmetric proposals).
LocalInfo metropolis_step(LocalState& state, const Tensor& x, const Evaluated& at_x, const Tensor& log_forward,
                          const Tensor& log_reverse, const Tensor& uniform);

class LocalKernel {
 public:
  virtual ~LocalKernel() = default;
  virtual bool needs_gradient() const { return false; }
  virtual LocalInfo step(LocalState& state, const Density& density, RowStreams noise, RowStreams uniforms) const = 0;
  LocalState init(const Tensor& x, const Density& density) const;
};

// `factor` [dim, dim], lower triangular: steps are step_size * factor * z.
std::unique_ptr<LocalKernel> make_random_walk(Tensor factor, double step_size);
std::unique_ptr<LocalKernel> make_mala(Tensor factor, double step_size);
std::unique_ptr<LocalKernel> make_hmc(Tensor factor, double step_size, int leapfrog_steps, double jitter = 0);

// Independent draws with their density, and the density of any point.
struct IndependentDraws {
  std::function<std::pair<Tensor, Tensor>(int64_t n, RowStreams noise)> draw;  // x [n, dim], log q [n]
  std::function<Tensor(const Tensor&)> log_prob;
};
// q(x' | x) = share q*(x') + (1 - share) N(x' | x, (step_size factor)(...)^T), with the ratio of the whole mixture.
std::unique_ptr<LocalKernel> make_random_walk_mixture(IndependentDraws independent, double share, Tensor factor,
                                                      double step_size);

}  // namespace hastings
