#include "hastings/diagnose/meeting.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "hastings/core/accept.h"
#include "hastings/core/parallel.h"

namespace hastings {
namespace {

constexpr int64_t kBlock = 256;

// Candidates' weights as they are needed, in blocks of fixed size.
class Candidates {
 public:
  Candidates(const Target& target, const Proposal& proposal, uint64_t seed, uint64_t pair)
      : target_(target),
        proposal_(proposal),
        noise_(seed, Phase::kMeeting, pair, Purpose::kProposal),
        uniforms_(seed, Phase::kMeeting, pair, Purpose::kAccept) {}
  void next(double& log_weight, double& log_u) {
    if (at_ == kBlock) refill();
    log_weight = weights_.data_ptr<double>()[at_];
    log_u = log_u_.data_ptr<double>()[at_++];
  }

 private:
  void refill() {
    const Draws draws = proposal_.sample(kBlock, noise_);
    weights_ = (target_.log_prob(draws.x) - draws.log_q).contiguous();
    log_u_ = uniforms_.uniform({kBlock}).log();
    at_ = 0;
  }
  const Target& target_;
  const Proposal& proposal_;
  Stream noise_, uniforms_;
  Tensor weights_, log_u_;
  int64_t at_ = kBlock;
};

// First step at which the leading chain, `lag` steps ahead, and the lagging one hold the same state.
int64_t meet(Candidates& candidates, int64_t lag, int64_t max_steps) {
  double x, y, weight, log_u;
  candidates.next(x, log_u);
  candidates.next(y, log_u);
  for (int64_t t = 0; t < lag; ++t) {
    candidates.next(weight, log_u);
    if (accept(log_u, log_ratio(weight, x))) x = weight;
  }
  for (int64_t t = lag + 1; t < max_steps; ++t) {
    candidates.next(weight, log_u);
    const bool x_moves = accept(log_u, log_ratio(weight, x)), y_moves = accept(log_u, log_ratio(weight, y));
    if (x_moves && y_moves) return t;
    if (x_moves) x = weight;
    if (y_moves) y = weight;
  }
  return max_steps;
}

}  // namespace

double Meeting::bound(int64_t steps) const {
  double sum = 0;
  for (const int64_t tau : times) {
    const auto excess = static_cast<double>(tau - lag - steps) / static_cast<double>(lag);
    sum += std::max(0.0, std::ceil(excess));
  }
  return std::min(1.0, sum / static_cast<double>(times.size()));
}

int64_t Meeting::steps_for(double distance) const {
  const int64_t longest = *std::max_element(times.begin(), times.end());
  int64_t steps = 0;
  while (steps < longest && bound(steps) > distance) ++steps;
  return steps;
}

Meeting meeting_times(const Target& target, const Proposal& proposal, const MeetingOptions& options) {
  const SingleThreaded single;
  const at::NoGradGuard no_grad;
  Meeting out;
  out.lag = options.lag;
  for (int64_t pair = 0; pair < options.pairs; ++pair) {
    Candidates candidates(target, proposal, options.seed, static_cast<uint64_t>(pair));
    const int64_t tau = meet(candidates, options.lag, options.max_steps);
    out.times.push_back(tau);
    out.not_met += tau == options.max_steps;
  }
  return out;
}

}  // namespace hastings
