#include "hastings/learn/fit.h"

#include <ATen/ATen.h>

#include <chrono>
#include <utility>

#include "../core/clock.h"
#include "hastings/chain/independent.h"
#include "hastings/core/fields.h"
#include "hastings/core/moments.h"
#include "hastings/core/parallel.h"
#include "hastings/learn/shape.h"

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

// Acceptance rate of chains that the proposal drives by itself, from its own draws, after as many steps again.
double acceptance_of_chains(const Target& target, const Proposal& proposal, uint64_t seed) {
  constexpr int64_t kChains = 64;
  constexpr int kSteps = 64;
  Stream stream(seed, Phase::kTrial, 0, Purpose::kProposal);
  const IndependentKernel kernel(density_of(target), proposal);
  State state = kernel.begin(kChains, stream);
  double accepted = 0;
  for (int step = 1; step <= 2 * kSteps; ++step) {
    const Info info = kernel.step(state, {stream, stream});
    if (step > kSteps) accepted += info.accept_prob.mean().item<double>() / kSteps;
  }
  return accepted;
}

// The phases, one after the other. What was stored of an earlier process is taken up where it was: with the start, and
// with what a bend had learned before it grew.
class Fitting {
 public:
  Fitting(const Target& target, const FitOptions& options, Observer& observer, LearnStore* store)
      : target_(target), options_(options), observer_(observer), store_(store) {}

  Fit run() {
    start();
    choose();
    if (!enough_) {
      shape();
      learn_flow();
      grow();
    }
    settle();
    return std::move(out_);
  }

 private:
  // With learning's own state, all that is stored.
  class Store final : public LearnStore {
   public:
    explicit Store(Fitting& fitting) : fitting_(fitting) {}
    bool due() override { return fitting_.store_->due(); }
    TensorMap load() override { return std::exchange(fitting_.stored_, {}); }
    void save(const TensorMap& learning) override {
      TensorMap all = to_tensors(fitting_.before_, "before.");
      all.insert(learning.begin(), learning.end());
      fitting_.store_->save(all);
    }

   private:
    Fitting& fitting_;
  };

  // What came before the learning that is under way.
  struct Before {
    Start start;
    double seconds = 0;  // of it
    std::string family;  // of the flow that learning began with
    bool grown = false;
    LearnResult first;  // of that flow, once another has grown from it

    template <class Archive>
    void fields(Archive& a) {
      a("start", start);
      a("seconds", seconds);
      a("family", family);
      a("grown", grown);
      a("first", first);
    }
  };

  bool automatic() const { return options_.flow.family == "auto"; }
  bool resumed() const { return resumed_; }
  Start& begin() { return before_.start; }

  void start() {
    if (store_) stored_ = store_->load();
    resumed_ = !stored_.empty();
    if (resumed()) {
      from_tensors(stored_, before_, "before.");
      return;
    }
    StartOptions how = options_.start;
    if (options_.flow.family == "realnvp") how.mixture = false;  // the paper's base is a Gaussian
    begin() = find_start(target_, how, observer_);
    const Population& found = begin().population;
    check_repeats(target_, found.x.narrow(0, 0, std::min<int64_t>(64, found.x.size(0))));
    before_.seconds = seconds_since(begin_);
    buffer_ = {found.x.clone(), found.log_prob.clone()};
  }

  void use(const std::string& family) {
    out_.flow = options_.flow;
    out_.flow.family = family;
    out_.flow = out_.flow.resolved(target_.dim());
    out_.flow.base_components = begin().base.components();
    out_.learn = options_.learn.resolved(out_.flow.family);
  }
  void build() { flow_ = make_flow_proposal(out_.flow, begin().whitening, begin().base, options_.start.seed); }

  // The simplest proposal that does it. A posterior close to a Gaussian needs no splines, whatever its dimension.
  void choose() {
    use(options_.flow.family);
    full_ = out_.flow.family == "bend" ? "coupling" : out_.flow.family;
    const bool nearly = automatic() && out_.flow.family == "spline" && out_.flow.base_components == 1 &&
                        target_.dim() > 1 && begin().acceptance >= kNearlyGaussian;
    if (resumed() ? before_.family == "bend" : nearly) use("bend");
    before_.family = out_.flow.family;
    enough_ = automatic() && !resumed() && begin().acceptance >= std::max(out_.learn.target_acceptance, 0.99);
    if (enough_) {
      out_.flow.family = "gaussian";
      out_.learning.acceptance = begin().acceptance;
      out_.learning.stopped = "target-acceptance";
    }
    build();
  }

  void shape() {
    if (resumed() || !out_.flow.shapes(target_.dim()) || out_.flow.base_components > 1 || begin().method == "none")
      return;
    begin().acceptance = shape_start(target_, begin().whitening, *flow_, buffer_, options_.start.seed);
  }

  LearnResult learned(const LearnOptions& how) {
    if (!store_) return learn(target_, *flow_, buffer_, how, observer_);
    if (!stored_.empty()) from_tensors(stored_, buffer_, "buffer.");
    Store store(*this);
    return learn(target_, *flow_, buffer_, how, observer_, &store);
  }

  void learn_flow() {
    if (before_.grown) {
      out_.learning = before_.first;
    } else {
      out_.learning = learned(out_.learn);
    }
  }

  void grow() {
    const LearnResult& first = out_.learning;
    if (!automatic() || out_.flow.family != "bend" || first.acceptance >= kGrow || first.stopped == "max-seconds" ||
        first.stopped == "wanted-ess")
      return;
    before_.grown = true;
    before_.first = first;
    use(full_);
    const auto bend = std::move(flow_);
    build();
    copy_common(*bend, *flow_);
    LearnOptions rest = out_.learn;
    rest.stage = 1;
    rest.max_iterations = std::max<int64_t>(0, rest.max_iterations - first.iterations);
    if (rest.max_seconds > 0) rest.max_seconds = std::max(1e-3, rest.max_seconds - first.seconds);
    append(out_.learning, learned(rest));
  }

  void settle() {
    auto& history = out_.learning.history;
    for (auto& row : history) row.seconds += before_.seconds;  // one clock for the whole
    history.insert(history.begin(), begin().history.begin(), begin().history.end());
    check_precision();
    out_.proposal = std::move(flow_);
    if (out_.flow.defensive > 0) {
      const Moments wide = moments(buffer_.x);
      out_.proposal = make_defensive(std::move(out_.proposal), out_.flow.defensive, {wide.mean, 1.5 * wide.factor});
    }
    out_.chain_acceptance = acceptance_of_chains(target_, *out_.proposal, options_.start.seed);
    out_.start_method = begin().method;
    out_.start_acceptance = begin().acceptance;
    out_.modes = begin().modes;
    out_.seconds = resumed() ? before_.seconds + out_.learning.seconds : seconds_since(begin_);
  }

  void check_precision() {
    if (out_.flow.precision != "float") return;
    out_.rounding = rounding_error(target_, out_.flow, *flow_, options_.start.seed);
    if (out_.rounding < kRounding) return;
    out_.flow.precision = "double";
    const auto state = flow_->state();
    build();
    flow_->load(state);
  }

  const Target& target_;
  const FitOptions& options_;
  Observer& observer_;
  LearnStore* store_;
  TensorMap stored_;  // until learning has taken it up
  bool resumed_ = false;
  bool enough_ = false;  // a start that is as good as asked for needs no flow
  Before before_;
  std::string full_;  // what a bend grows into
  std::unique_ptr<FlowProposal> flow_;
  Population buffer_;
  Fit out_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

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
  const SingleThreaded single;
  return Fitting(target, options, observer, store).run();
}

}  // namespace hastings
