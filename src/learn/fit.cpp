#include <ATen/ATen.h>

#include <chrono>

#include "../core/clock.h"
#include "hastings/core/moments.h"
#include "hastings/core/parallel.h"
#include "hastings/learn/learner.h"

namespace hastings {
namespace {

constexpr double kRounding = 0.02;  // largest error of a log weight by rounding; beyond it the flow turns to double

// The layers two flows have in common, by kind: "flow.3.affine.shift" -> "affine.shift".
std::string kind_of(const std::string& slot) { return slot.substr(slot.find('.', slot.find('.') + 1) + 1); }

void copy_common(const FlowProposal& from, FlowProposal& to) {
  const auto source = from.parameters();
  auto values = to.parameters();
  for (const auto& slot : to.slots()) {
    for (const auto& other : from.slots()) {
      if (kind_of(slot.name) == kind_of(other.name) && slot.shape == other.shape)
        std::copy_n(source.begin() + other.offset, other.size, values.begin() + slot.offset);
    }
  }
  to.set_parameters(values);
}

void append(LearnResult& all, LearnResult more) {
  for (auto& row : more.history) {
    row.iteration += all.iterations;
    row.seconds += all.seconds;
    all.history.push_back(row);
  }
  all.acceptance = more.acceptance;
  all.acceptance_bound = more.acceptance_bound;
  all.iterations += more.iterations;
  all.skipped += more.skipped;
  all.non_finite += more.non_finite;
  all.seconds += more.seconds;
  all.stopped = more.stopped;
}

}  // namespace

void FitOptions::validate() const {
  flow.validate();
  start.validate();
  learn.validate();
}

double rounding_error(const Target& target, const FlowSpec& spec, const Proposal& flow, uint64_t seed) {
  FlowSpec exact = spec;
  exact.precision = "double";
  exact.defensive = 0;
  const auto reference = make_blank_proposal(exact, target.dim());
  reference->load(flow.state());
  Stream stream(seed, 4, Purpose::kStart);
  const Tensor noise = stream.normal({4096, flow.noise_dim()});
  const Draws rough = flow.from_noise(noise), fine = reference->from_noise(noise);
  const Tensor weights = target.log_prob(rough.x) - rough.log_q - (target.log_prob(fine.x) - fine.log_q);
  auto largest = [](const Tensor& t) { return t.nan_to_num(0, 0, 0).abs().max().item<double>(); };
  return std::max(largest(weights), largest(flow.log_prob(rough.x) - rough.log_q));
}

Fit fit(const Target& target, const FitOptions& options, Observer& observer) {
  options.validate();
  const auto begin = std::chrono::steady_clock::now();
  const SingleThreaded single;
  StartOptions start_options = options.start;
  if (options.flow.family == "realnvp") start_options.mixture = false;  // the paper's base is a Gaussian
  Start start = find_start(target, start_options, observer);
  const double started = seconds_since(begin);
  Fit out;
  out.flow = options.flow.resolved(target.dim());
  out.flow.base_components = start.base.components();
  out.learn = options.learn.resolved(out.flow.family);
  // The simplest proposal that does it: a start that is already as good as asked for needs no flow.
  const bool automatic = options.flow.family == "auto";
  const bool enough = automatic && start.acceptance >= std::max(out.learn.target_acceptance, 0.99);
  if (enough) out.flow.family = "gaussian";
  auto build = [&] { return make_flow_proposal(out.flow, start.whitening, start.base, options.start.seed); };
  std::unique_ptr<FlowProposal> flow = build();
  Population buffer{start.population.x.clone(), start.population.log_prob.clone()};
  LearnResult& learning = out.learning;
  if (enough) {
    learning.acceptance = start.acceptance;
    learning.stopped = "target-acceptance";
  } else {
    if (out.flow.shapes(target.dim()) && out.flow.base_components == 1 && start.method != "none")
      start.acceptance = shape_start(target, start.whitening, *flow, buffer, options.start.seed);
    learning = learn(target, *flow, buffer, out.learn, observer);
    if (automatic && out.flow.family == "bend" && learning.acceptance < kGrow && learning.stopped != "max-seconds") {
      out.flow.family = "coupling";
      out.flow.couplings = 0;
      out.flow = out.flow.resolved(target.dim());
      out.learn = options.learn.resolved(out.flow.family);
      auto grown = build();
      copy_common(*flow, *grown);
      flow = std::move(grown);
      LearnOptions rest = out.learn;
      rest.max_iterations = std::max<int64_t>(0, rest.max_iterations - learning.iterations);
      if (rest.max_seconds > 0) rest.max_seconds = std::max(1e-3, rest.max_seconds - learning.seconds);
      append(learning, learn(target, *flow, buffer, rest, observer));
    }
  }
  for (auto& row : learning.history) row.seconds += started;  // one clock for the whole
  learning.history.insert(learning.history.begin(), start.history.begin(), start.history.end());
  if (out.flow.precision == "float") {
    out.rounding = rounding_error(target, out.flow, *flow, options.start.seed);
    if (!(out.rounding < kRounding)) {
      out.flow.precision = "double";
      const auto state = flow->state();
      flow = build();
      flow->load(state);
    }
  }
  out.proposal = std::move(flow);
  if (out.flow.defensive > 0) {
    const Moments wide = moments(buffer.x);
    out.proposal = make_defensive(std::move(out.proposal), out.flow.defensive, {wide.mean, 1.5 * wide.factor});
  }
  out.start_method = start.method;
  out.start_acceptance = start.acceptance;
  out.modes = start.modes;
  out.seconds = seconds_since(begin);
  return out;
}

}  // namespace hastings
