// Where learning starts: a first proposal that overlaps the target and covers its modes, and a population
// of points to fill the buffer with.
#pragma once

#include <string>
#include <vector>

#include "hastings/core/events.h"
#include "hastings/explore/population.h"
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

  template <class Archive>
  void fields(Archive& a) {
    a("method", method);
    a("mixture", mixture);
    a("scale", scale);
    a("particles", particles);
    a("seed", seed);
  }
};

struct Start {
  std::string method;    // what was used
  Whitening whitening;   // location and scale of the whole
  GaussianMixture base;  // in whitened coordinates
  Population population;
  double acceptance = 0;               // estimated acceptance rate of the start itself
  int64_t modes = 0;                   // distinct modes that were found; 0 if not looked for
  std::vector<LearnProgress> history;  // a row for each temperature

  // Without the population: learning has it as its buffer.
  template <class Archive>
  void fields(Archive& a) {
    a("method", method);
    a("shift", whitening.shift);
    a("factor", whitening.factor);
    a("log_weights", base.log_weights);
    a("means", base.means);
    a("factors", base.factors);
    a("acceptance", acceptance);
    a("modes", modes);
    a("history", history);
  }
};

// none:    a standard Gaussian of the given scale.
// laplace: modes by quasi-Newton from many points, a Gaussian at each.
// anneal:  a population carried from a wide Gaussian to the target by tempering, with random-walk moves.
// auto:    laplace; if that does not overlap the target well, or in up to four dimensions, where it is cheap
//          insurance against missed modes, anneal as well; and whatever accepts best on the population. In high
//          dimensions, where tempering by random walks gets nowhere, Hamiltonian moves from the mode instead.
Start find_start(const Target& target, const StartOptions& options, Observer& observer);

}  // namespace hastings
