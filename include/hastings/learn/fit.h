// Start, shape, learn, grow, settle: what `hastings fit` does. The proposal that comes back is frozen. With the family
// left to `auto`, a bend that does not reach kGrow grows couplings and learns on.
#pragma once

#include <memory>

#include "hastings/explore/start.h"
#include "hastings/learn/learner.h"

namespace hastings {

struct FitOptions {
  FlowSpec flow;
  StartOptions start;
  LearnOptions learn;
  void validate() const;

  template <class Archive>
  void fields(Archive& a) {
    a("flow", flow);
    a("start", start);
    a("learn", learn);
  }
};
constexpr double kGrow = 0.9;
struct Fit {
  FlowSpec flow;       // as resolved
  LearnOptions learn;  // as resolved
  std::unique_ptr<Proposal> proposal;
  LearnResult learning;
  std::string start_method;
  double start_acceptance = 0;
  int64_t modes = 0;
  double chain_acceptance = 0;  // of short chains driven by the proposal that is kept; where the buffer was not the
                                // target's, this is lower than what learning saw
  double rounding = 0;          // largest error of a log weight seen that comes from the flow's precision
  double seconds = 0;           // all of it
};

// Largest error of log weights through rounding, over draws of a flow in float: against the same flow in double, and of
// log_prob() at the draw against the draw's own log q.
double rounding_error(const Target& target, const FlowSpec& spec, const Proposal& flow, uint64_t seed);

Fit fit(const Target& target, const FitOptions& options, Observer& observer, LearnStore* store = nullptr);

}  // namespace hastings
