// Algorithm 1 of the paper: learn an independent proposal by the acceptance rate of the chain it drives.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hastings/core/events.h"
#include "hastings/core/objectives.h"
#include "hastings/explore/population.h"
#include "hastings/proposal/flow_proposal.h"
#include "hastings/target/target.h"

namespace hastings {

struct LearnOptions {
  std::string objective = "ar";  // ar | arlb | vi
  int64_t batch = 0;             // candidates, and states, a step; 0: by the flow's family
  double learning_rate = 0;      // at the start, lowered when the acceptance rate stops rising; 0: by family
  int64_t max_iterations = 50000;
  double max_seconds = 150;      // 0: no limit
  double target_acceptance = 0;  // good enough: learning ends here; 0: by family
  double wanted_ess = 0;         // effective draws that are wanted: learning also ends where going on would cost more
                                 // evaluations than it can save; 0: not known
  int64_t window = 0;            // steps before progress is judged; 0: by family
  int64_t patience = 0;          // windows without progress before the rate is lowered; 0: by family
  int64_t reductions = -1;       // of the rate, each by half an order, before learning ends; -1: by family
  bool lead_in = true;           // objective ar: begin with arlb, whose gradient does not vanish without overlap
  double lead_share = 0;         // of the steps: so long arlb leads in any case, overlap or not
  double clip = 10;              // largest norm of a gradient
  uint64_t seed = 1;
  int stage = 0;    // which learning of the same seed this is: each has its own randomness
  int threads = 0;  // 0: all cores; results do not depend on it
  void validate() const;
  LearnOptions resolved(const std::string& family) const;

  template <class Archive>
  void fields(Archive& a) {
    a.later("objective", objective);
    a.later("batch", batch);
    a.later("learning_rate", learning_rate);
    a.later("max_iterations", max_iterations);
    a.later("max_seconds", max_seconds);
    a.later("target_acceptance", target_acceptance);
    a.later("wanted_ess", wanted_ess);
    a.later("window", window);
    a.later("patience", patience);
    a.later("reductions", reductions);
    a.later("lead_in", lead_in);
    a.later("lead_share", lead_share);
    a.later("clip", clip);
    a.later("seed", seed);
    a.later("threads", threads);
  }
};

struct LearnResult {
  std::vector<LearnProgress> history;
  double acceptance = 0;  // of the proposal that is kept: the best of all windows, or the start if none was better
  double acceptance_bound = 0;
  int64_t iterations = 0;
  int64_t skipped = 0;     // steps left out for a non-finite loss or gradient
  int64_t non_finite = 0;  // candidates with a non-finite log density
  double seconds = 0;
  std::string stopped;  // why

  template <class Archive>
  void fields(Archive& a) {
    a("history", history);
    a("acceptance", acceptance);
    a("acceptance_bound", acceptance_bound);
    a("iterations", iterations);
    a("skipped", skipped);
    a("non_finite", non_finite);
    a("seconds", seconds);
    a("stopped", stopped);
  }
};

// Where learning is stored from time to time, as tensors by name, and where it is taken up again: bit for bit as if it
// had never stopped.
class LearnStore {
 public:
  virtual ~LearnStore() = default;
  virtual bool due() = 0;  // asked at the end of every window
  virtual void save(const std::map<std::string, Tensor>& state) = 0;
  virtual std::map<std::string, Tensor> load() = 0;  // empty: nothing stored
};

// The buffer of Algorithm 1 is a population of chains: every step some of them meet new candidates.
// Improves `proposal` in place; the buffer's chains move with it.
LearnResult learn(const Target& target, FlowProposal& proposal, Population& buffer, const LearnOptions& options,
                  Observer& observer, LearnStore* store = nullptr);

}  // namespace hastings
