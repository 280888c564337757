#include <ATen/ATen.h>

#include <chrono>

#include "../core/clock.h"
#include "hastings/core/accept.h"
#include "hastings/core/moments.h"
#include "hastings/core/parallel.h"
#include "hastings/learn/learner.h"
#include "state.h"

namespace hastings {
namespace {

constexpr double kNearlyGaussian = 0.75;  // acceptance of a single Gaussian
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

void put_start(State& state, const Start& start) {
  put(state, "start.method", start.method);
  state["start.shift"] = start.whitening.shift;
  state["start.factor"] = start.whitening.factor;
  state["start.weights"] = start.base.log_weights;
  state["start.means"] = start.base.means;
  state["start.factors"] = start.base.factors;
  put(state, "start.numbers", std::vector<double>{start.acceptance, static_cast<double>(start.modes)});
  put(state, "start.history", start.history);
}

Start get_start(const State& state) {
  Start start;
  start.method = get_text(state, "start.method");
  start.whitening = {in_state(state, "start.shift"), in_state(state, "start.factor")};
  start.base = {in_state(state, "start.weights"), in_state(state, "start.means"), in_state(state, "start.factors")};
  const auto numbers = get_doubles(state, "start.numbers");
  start.acceptance = numbers.at(0);
  start.modes = static_cast<int64_t>(numbers.at(1));
  start.history = get_history(state, "start.history");
  start.population = {in_state(state, "buffer.x").clone(), in_state(state, "buffer.log_prob").clone()};
  return start;
}

void put_result(State& state, const LearnResult& r) {
  put(state, "first.history", r.history);
  put(state, "first.numbers", std::vector<double>{r.acceptance, r.acceptance_bound, r.seconds});
  put(state, "first.counts", std::vector<int64_t>{r.iterations, r.skipped, r.non_finite});
  put(state, "first.stopped", r.stopped);
}

LearnResult get_result(const State& state) {
  LearnResult r;
  r.history = get_history(state, "first.history");
  const auto numbers = get_doubles(state, "first.numbers");
  r.acceptance = numbers.at(0);
  r.acceptance_bound = numbers.at(1);
  r.seconds = numbers.at(2);
  const auto counts = get_integers(state, "first.counts");
  r.iterations = counts.at(0);
  r.skipped = counts.at(1);
  r.non_finite = counts.at(2);
  r.stopped = get_text(state, "first.stopped");
  return r;
}

// Adds to a state of learning what came before it: the start, and the result of the bend that grew couplings.
class WholeStore final : public LearnStore {
 public:
  WholeStore(LearnStore& store, const Start& start, double started, std::string family, const LearnResult* first,
             State stored)
      : store_(store),
        start_(start),
        started_(started),
        family_(std::move(family)),
        first_(first),
        stored_(std::move(stored)) {}
  bool due() override { return store_.due(); }
  State load() override { return stored_; }
  void save(const State& learning) override {
    State state = learning;
    put_start(state, start_);
    put(state, "started", std::vector<double>{started_});
    put(state, "family", family_);
    if (first_) put_result(state, *first_);
    store_.save(state);
  }

 private:
  LearnStore& store_;
  const Start& start_;
  double started_;
  std::string family_;  // of the flow that learning began with
  const LearnResult* first_;
  State stored_;
};

// Acceptance rate of chains that the proposal drives by itself, from its own draws, after as many steps again.
double acceptance_of_chains(const Target& target, const Proposal& proposal, uint64_t seed) {
  constexpr int64_t kChains = 64;
  constexpr int kSteps = 64;
  Stream stream(seed, Phase::kTrial, 0, Purpose::kProposal);
  Tensor weight;
  double accepted = 0;
  for (int step = 0; step <= 2 * kSteps; ++step) {
    const Draws draws = proposal.sample(kChains, stream);
    const Tensor w = (target.log_prob(draws.x) - draws.log_q).nan_to_num(-1e300, -1e300, -1e300);
    if (step == 0) {
      weight = w;
      continue;
    }
    const Tensor ratio = log_ratio(w, weight);
    if (step > kSteps) accepted += ratio.clamp_max(0).exp().mean().item<double>() / kSteps;
    weight = at::where(accept_mask(stream.uniform({kChains}).log(), ratio), w, weight);
  }
  return accepted;
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
  Stream stream(seed, Phase::kRounding, 0, Purpose::kProposal);
  const Tensor noise = stream.normal({4096, flow.noise_dim()});
  const Draws rough = flow.from_noise(noise), fine = reference->from_noise(noise);
  const Tensor weights = target.log_prob(rough.x) - rough.log_q - (target.log_prob(fine.x) - fine.log_q);
  auto largest = [](const Tensor& t) { return t.nan_to_num(0, 0, 0).abs().max().item<double>(); };
  return std::max(largest(weights), largest(flow.log_prob(rough.x) - rough.log_q));
}

Fit fit(const Target& target, const FitOptions& options, Observer& observer, LearnStore* store) {
  options.validate();
  const auto begin = std::chrono::steady_clock::now();
  const SingleThreaded single;
  StartOptions start_options = options.start;
  if (options.flow.family == "realnvp") start_options.mixture = false;  // the paper's base is a Gaussian
  const State stored = store ? store->load() : State();
  const bool resumed = !stored.empty(), grown_before = stored.count("first.counts") > 0;
  Start start = resumed ? get_start(stored) : find_start(target, start_options, observer);
  if (!resumed)
    check_repeats(target, start.population.x.narrow(0, 0, std::min<int64_t>(64, start.population.x.size(0))));
  const double started = resumed ? get_doubles(stored, "started").at(0) : seconds_since(begin);
  Fit out;
  const bool automatic = options.flow.family == "auto";
  auto choose = [&](const std::string& family) {
    FlowSpec spec = options.flow;
    spec.family = family;
    out.flow = spec.resolved(target.dim());
    out.flow.base_components = start.base.components();
    out.learn = options.learn.resolved(out.flow.family);
  };
  choose(options.flow.family);
  const std::string full = out.flow.family == "bend" ? "coupling" : out.flow.family;  // what a bend grows into
  // The simplest proposal that does it. A posterior close to a Gaussian needs no splines, whatever its dimension; a
  // start that is already as good as asked for needs no flow.
  const bool nearly = automatic && out.flow.family == "spline" && out.flow.base_components == 1 && target.dim() > 1 &&
                      start.acceptance >= kNearlyGaussian;
  if (resumed ? get_text(stored, "family") == "bend" : nearly) choose("bend");
  const std::string family = out.flow.family;
  const bool enough = automatic && !resumed && start.acceptance >= std::max(out.learn.target_acceptance, 0.99);
  if (enough) out.flow.family = "gaussian";
  auto build = [&] { return make_flow_proposal(out.flow, start.whitening, start.base, options.start.seed); };
  std::unique_ptr<FlowProposal> flow = build();
  Population buffer{start.population.x.clone(), start.population.log_prob.clone()};
  LearnResult& learning = out.learning;
  if (enough) {
    learning.acceptance = start.acceptance;
    learning.stopped = "target-acceptance";
  } else {
    auto learned = [&](const LearnOptions& how, const LearnResult* first, const State& from) {
      if (!store) return learn(target, *flow, buffer, how, observer);
      WholeStore whole(*store, start, started, family, first, from);
      return learn(target, *flow, buffer, how, observer, &whole);
    };
    if (grown_before) {
      learning = get_result(stored);
    } else {
      if (!resumed && out.flow.shapes(target.dim()) && out.flow.base_components == 1 && start.method != "none")
        start.acceptance = shape_start(target, start.whitening, *flow, buffer, options.start.seed);
      learning = learned(out.learn, nullptr, stored);
    }
    if (automatic && out.flow.family == "bend" && learning.acceptance < kGrow && learning.stopped != "max-seconds" &&
        learning.stopped != "wanted-ess") {
      choose(full);
      auto grown = build();
      copy_common(*flow, *grown);
      flow = std::move(grown);
      LearnOptions rest = out.learn;
      rest.stage = 1;
      rest.max_iterations = std::max<int64_t>(0, rest.max_iterations - learning.iterations);
      if (rest.max_seconds > 0) rest.max_seconds = std::max(1e-3, rest.max_seconds - learning.seconds);
      const LearnResult first = learning;
      append(learning, learned(rest, &first, grown_before ? stored : State()));
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
  out.chain_acceptance = acceptance_of_chains(target, *out.proposal, options.start.seed);
  out.start_method = start.method;
  out.start_acceptance = start.acceptance;
  out.modes = start.modes;
  out.seconds = resumed ? started + learning.seconds : seconds_since(begin);
  return out;
}

}  // namespace hastings
