// The rivals of the paper's Table 1, each learned by its own algorithm into a kernel that is exact for its target.
#pragma once

#include <memory>

#include "hastings/chain/kernel.h"
#include "hastings/core/events.h"
#include "hastings/learn/fit.h"

namespace hastings {

// Hamiltonian Monte Carlo with identity mass and a step size found by dual averaging (Hoffman and Gelman 2014).
struct HmcOptions {
  int leapfrog_steps = 10;
  double jitter = 0.2;  // step sizes vary by this share: with one alone some directions return to where they began
  double target_acceptance = 0.8;
  int64_t chains = 64, warmup = 500;
  uint64_t seed = 1;
};
struct TunedHmc {
  std::unique_ptr<Kernel> kernel;
  double step_size = 0;
  Tensor states;  // [chains, dim] where tuning ended
};
TunedHmc tune_hmc(const Target& target, const HmcOptions& options, Observer& observer);

// L2HMC (Levy, Hoffman and Sohl-Dickstein 2018): leapfrog steps with learned scalings and shifts; the acceptance ratio
// has their exact log-determinant.
struct L2hmcOptions {
  int leapfrog_steps = 10;
  int64_t hidden = 10;
  double step_size = 0;  // at the start, then learned; 0: that of a tuned HMC
  int64_t iterations = 5000, chains = 200;
  double learning_rate = 1e-3;  // times 0.96 every 1,000 steps
  double scale = 0.1;           // lambda^2 of the loss
  double burn_in = 0;           // weight of the loss from draws of a standard normal (lambda_b)
  double temperature = 1;       // of the target as learning begins; it falls to one over the first half
  double heads = 0.045;         // size of the networks' last layers at the start: next to plain HMC
  uint64_t seed = 1;
};
std::unique_ptr<Kernel> learn_l2hmc(const Target& target, const L2hmcOptions& options, Observer& observer);

// A-NICE-MC (Song, Zhao and Ermon 2017): a volume-preserving network on (x, v), trained against a pairwise critic
// (WGAN-GP) on draws that the chain itself bootstraps.
struct AniceOptions {
  int64_t velocity = 2;                                              // dimensions of v
  std::vector<std::vector<int64_t>> hidden = {{400}, {400}, {400}};  // of each coupling
  std::vector<int64_t> critic = {400, 400, 400};
  int64_t iterations = 5000, batch = 32, critic_steps = 5;
  int64_t from_noise = 8, between = 2;  // at most so many steps (b and m) before a pair, and between its two
  double velocity_weight = 1;           // eta, of the cross-entropy of v
  bool standardise = false;             // networks see coordinates of mean zero and covariance one, by the first draws
  int64_t bootstrap_every = 500, bootstrap_chains = 32, bootstrap_steps = 5000, bootstrap_burn_in = 1000;
  double learning_rate = 5e-4, penalty = 10;
  double heads = 0.1;  // size of the couplings' last layers at the start: small moves
  uint64_t seed = 1;
};
std::unique_ptr<Kernel> learn_anice(const Target& target, const AniceOptions& options, Observer& observer);

// Variational MCMC (de Freitas, Hojen-Sorensen, Jordan and Russell 2001): candidates from a flow learned by the reverse
// KL, or from a random walk, with the ratio of the whole mixture.
struct VariationalMcmcOptions {
  FlowSpec flow;       // the default: as `hastings fit --objective vi` would take
  LearnOptions learn;  // its objective is VI, whatever is said here
  double share = 0.5;  // of candidates that come from the flow
  double step = 0.5;   // of the walk, in units of the flow's spread
  uint64_t seed = 1;
};
std::unique_ptr<Kernel> learn_variational_mcmc(const Target& target, const VariationalMcmcOptions& options,
                                               Observer& observer);

}  // namespace hastings
