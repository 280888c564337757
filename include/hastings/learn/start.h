// Where learning starts: a first proposal that overlaps the target and covers its modes, and a population
// of points to fill the buffer with.
#pragma once

#include <string>
#include <vector>

#include "hastings/core/events.h"
#include "hastings/proposal/flow_proposal.h"
#include "hastings/target/target.h"

namespace hastings {

struct StartOptions {
  std::string method = "auto";  // auto | laplace | anneal | none
  bool mixture = true;          // may several modes become components of the base?
  double scale = 0;             // spread of the first points; 0: the target's own
  int64_t particles = 4096;
  uint64_t seed = 1;
  void validate() const;
};

// Points roughly distributed as the target, and the buffer of Algorithm 1 while learning.
struct Population {
  Tensor x, log_prob;  // [n, dim], [n]
};

struct Start {
  std::string method;    // what was used
  Whitening whitening;   // location and scale of the whole
  GaussianMixture base;  // in whitened coordinates
  Population population;
  double acceptance = 0;               // estimated acceptance rate of the start itself
  int64_t modes = 0;                   // distinct modes that were found; 0 if not looked for
  std::vector<LearnProgress> history;  // a row for each temperature
};

// none:    a standard Gaussian of the given scale.
// laplace: modes by quasi-Newton from many points, a Gaussian at each.
// anneal:  a population carried from a wide Gaussian to the target by tempering, with random-walk moves.
// auto:    laplace; if that does not overlap the target well, or in up to four dimensions, where it is cheap
//          insurance against missed modes, anneal as well; and whatever accepts best on the population. In high
//          dimensions, where tempering by random walks gets nowhere, Hamiltonian moves from the mode instead.
Start find_start(const Target& target, const StartOptions& options, Observer& observer);

// Quasi-Newton (L-BFGS) ascent of log_prob from every row at once; rows that fail stay where they are.
Tensor climb(const Target& target, const Tensor& from, int64_t max_iterations = 500);

// Tempered population: returns points at beta = 1.
Population anneal(const Target& target, const StartOptions& options, Observer& observer,
                  std::vector<LearnProgress>& history);

// Sets what is known of a flow before learning: a radial layer by the radii of the states, a bend layer by the target's
// third derivatives at the whitening's centre, the last layer by the moments of weighted draws. Each is kept only if
// the acceptance rate against the states rises. Returns that rate. For a base of one Gaussian.
double shape_start(const Target& target, const Whitening& whitening, FlowProposal& flow, const Population& states,
                   uint64_t seed);

}  // namespace hastings
