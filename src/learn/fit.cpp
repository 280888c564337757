#include <ATen/ATen.h>

#include <chrono>

#include "hastings/core/parallel.h"
#include "hastings/learn/learner.h"

namespace hastings {

void FitOptions::validate() const {
  flow.validate();
  start.validate();
  learn.validate();
}

Fit fit(const Target& target, const FitOptions& options, Observer& observer) {
  options.validate();
  const auto begin = std::chrono::steady_clock::now();
  const SingleThreaded single;
  StartOptions start_options = options.start;
  if (options.flow.family == "realnvp") start_options.mixture = false;  // the paper's base is a Gaussian
  Start start = find_start(target, start_options, observer);
  Fit out;
  out.flow = options.flow.resolved(target.dim());
  out.flow.base_components = start.base.components();
  out.learn = options.learn.resolved(out.flow.family);
  // The simplest proposal that does it: a start that is already as good as asked for needs no flow.
  const bool enough = options.flow.family == "auto" && start.acceptance >= std::max(out.learn.target_acceptance, 0.99);
  if (enough) out.flow.family = "gaussian";
  std::unique_ptr<FlowProposal> flow = make_flow_proposal(out.flow, start.whitening, start.base, options.start.seed);
  Buffer buffer{start.population.clone(), start.log_prob.clone()};
  LearnResult& learning = out.learning;
  if (enough) {
    learning.acceptance = start.acceptance;
    learning.stopped = "target-acceptance";
  } else {
    learning = learn(target, *flow, buffer, out.learn, observer);
  }
  learning.history.insert(learning.history.begin(), start.history.begin(), start.history.end());
  out.proposal = std::move(flow);
  if (out.flow.defensive > 0) {
    const Tensor centre = buffer.x.mean(0), centred = buffer.x - centre;
    const Tensor covariance = at::matmul(centred.t(), centred) / static_cast<double>(buffer.x.size(0) - 1);
    out.proposal =
        make_defensive(std::move(out.proposal), out.flow.defensive, {centre, 1.5 * at::linalg_cholesky(covariance)});
  }
  out.start_method = start.method;
  out.start_acceptance = start.acceptance;
  out.modes = start.modes;
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

}  // namespace hastings
