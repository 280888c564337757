#include "hastings/gan/calibrate/choose.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "../numbers.h"
#include "explain.h"
#include "hastings/core/accept.h"
#include "hastings/core/error.h"
#include "hastings/core/parallel.h"
#include "hastings/core/registry.h"
#include "hastings/gan/filter/propose.h"
#include "space.h"
#include "trials.h"

namespace hastings {
namespace {

constexpr const char* kFreely = "auto";
constexpr int64_t kMostThinning = 100;  // proposals an output, where the chain may choose
constexpr double kApart = 1e-3;         // a log-loss below: real and generated do not overlap
constexpr int64_t kFewestFitted = 50;   // images a calibration is fitted to
constexpr int64_t kMostGenerated = 20000;

// At how many proposals an output a chain repeats itself in one output of twenty.
int64_t thinning(const std::vector<double>& weights, uint64_t seed) {
  Stream stream(seed, Phase::kThinning, 0, Purpose::kAccept);
  std::vector<double> log_u(weights.size()), stat(weights.size());
  std::vector<int64_t> held(weights.size());
  log_uniforms(stream, log_u);
  ScanState state;
  ScanInfo info;
  scan(weights, log_u, state, info, held, stat);
  for (int64_t k = 1; k < static_cast<int64_t>(weights.size()) / 20; k = k < 10 ? k + 1 : k * 5 / 4) {
    int64_t outputs = 0, repeats = 0;
    for (auto i = static_cast<size_t>(2 * k); i < held.size(); i += static_cast<size_t>(k)) {
      ++outputs;
      repeats += held[i] == held[i - static_cast<size_t>(k)] ? 1 : 0;
    }
    if (20 * repeats <= outputs) return k;
  }
  return static_cast<int64_t>(weights.size()) / 20;
}

// What is fitted by one method.
struct Attempt {
  CalibratorKind method;
  std::vector<double> penalties;
  std::vector<Calibration> fitted = {};
  std::string failure = {};
};

std::vector<Attempt> attempts(const CalibrateOptions& o, bool features) {
  if (o.method == CalibratorKind::kNone) return {};
  if (o.method) return {{*o.method, {o.penalty}}};
  // The dearest first.
  std::vector<CalibratorKind> linear = {CalibratorKind::kRefit};
  if (features) linear.push_back(CalibratorKind::kHead);
  if (o.witness) linear.insert(linear.end(), {CalibratorKind::kLogitWitness, CalibratorKind::kWitness});
  std::vector<Attempt> out;
  for (const auto method : linear) out.push_back({method, {1e-5, 1e-4, 1e-3, 1e-2, 1e-1}});
  for (const auto method : {CalibratorKind::kIsotonic, CalibratorKind::kBeta, CalibratorKind::kPlatt})
    out.push_back({method, {0}});
  return out;
}

void check_finite(const Opinions& said) {
  auto good = [](const Tensor& x) { return !x.defined() || at::isfinite(x).all().item<bool>(); };
  if (!good(said.logits) || !good(said.features))
    throw NumericalError("the discriminator gives scores that are not finite");
  if (!good(said.witness)) throw NumericalError("the witness gives features that are not finite");
}

// The choice, phase by phase. Each phase leaves its results to the next.
class Choice {
 public:
  Choice(const Pair& pair, const Tensor& real, const CalibrateOptions& options, Observer& observer)
      : pair_(pair),
        options_(options),
        observer_(observer),
        last_layer_(pair.discriminator->has_features()),
        thinned_(options.per_output == 0),
        threads_(resolve_threads(options.threads)) {
    options.validate();
    if (thinned_) options_.per_output = ChosenCalibration{}.per_output;
    check_possible(real.size(0));
  }

  ChosenCalibration run(const Tensor& real) {
    ask(real);
    fit();
    weigh();
    try_protocols();
    rank();
    settle();
    explain(out_, options_);
    return std::move(out_);
  }

 private:
  struct Ranked {
    size_t fitted;
    Trial trial;
  };

  void check_possible(int64_t images) const;
  void ask(const Tensor& real);
  void fit();
  void weigh();
  void try_protocols();
  void rank();
  void settle();

  void check_stop() const {
    if (observer_.should_stop()) throw Interrupted("calibration interrupted");
  }
  void tell(const std::string& phase, int64_t done = 0, int64_t of = 1) const {
    check_stop();
    LearnProgress p;
    p.phase = "calibrate: " + phase;
    p.iteration = done;
    p.max_iterations = of;
    observer_.on_learn(p);
  }
  Questions everything() const { return {true, options_.witness.get()}; }
  std::string space_name() const {
    if (options_.witness) return options_.witness->name();
    return last_layer_ ? "the discriminator's features" : "images at 8x8 (the discriminator hides its features)";
  }

  const Pair& pair_;
  CalibrateOptions options_;
  Observer& observer_;
  bool last_layer_, thinned_;
  int threads_;

  Opinions real_fit_, real_held_out_, fake_fit_;  // ask
  std::vector<Fitted> fitted_;                    // fit; the first: logits as they are
  std::vector<Tensor> weights_;                   // weigh; of the trial proposals by each of them
  Tensor features_, real_features_;               // of the trial proposals and of held-out images
  std::vector<Ranked> ranked_;                    // try_protocols; rank: the best first
  ChosenCalibration out_;
};

void Choice::check_possible(int64_t images) const {
  if (images / 2 < kFewestFitted)
    throw DataError(fmt::format("{} images are too few to calibrate with ({} at least)", images, 2 * kFewestFitted));
  if (options_.method == CalibratorKind::kHead && !last_layer_)
    throw ConfigError("method 'head': the discriminator does not show what its last layer sees");
  if (options_.method && entry_of(*options_.method).looks_at == CalibratorEntry::LooksAt::kWitness && !options_.witness)
    throw ConfigError(fmt::format("method '{}': needs a witness (--witness)", to_string(*options_.method)));
}

// Shuffled: neighbours in a data set are alike. One half calibrates, the other is held out.
void Choice::ask(const Tensor& real) {
  const int64_t n = real.size(0), fitting = n / 2;
  const Tensor order = Stream(options_.seed, Phase::kCalibrationSplit, 0, Purpose::kBatch).permutation(n);
  tell("scores of real images");
  const Opinions all = opinions_of(pair_, real.index_select(0, order), everything(), options_.threads);
  check_finite(all);
  real_fit_ = all.rows(0, fitting);
  real_held_out_ = all.rows(fitting, n - fitting);
  tell("scores of generated images");
  fake_fit_ = Proposals(pair_, options_.seed, Phase::kCalibration, options_.threads)
                  .opinions(0, std::min(4 * fitting, kMostGenerated), everything());
  check_finite(fake_fit_);
}

void Choice::fit() {
  auto tried = attempts(options_, last_layer_);
  tell("fitting");
  parallel_tasks(static_cast<int64_t>(tried.size()), threads_, [&](int64_t task) {
    Attempt& a = tried[static_cast<size_t>(task)];
    check_stop();
    try {
      a.fitted = fit_calibrations(a.method, a.penalties, real_fit_, fake_fit_, options_.witness);
    } catch (const NumericalError& error) {
      if (options_.method) throw;
      a.failure = fmt::format("{} is left out: {}", to_string(a.method), error.what());
    }
  });
  fitted_.resize(1);
  for (auto& a : tried) {
    for (auto& calibration : a.fitted) fitted_.push_back({std::move(calibration), {}, {}});
    if (!a.failure.empty()) out_.warnings.push_back(std::move(a.failure));
  }
}

// The trial proposals, weighed by every calibration, are kept as numbers and as features.
void Choice::weigh() {
  const int64_t k = options_.per_output, part = std::max<int64_t>(k * 250, 10000) / k * k;
  const int64_t count = Trials::kParts * part, round = 16 * kProposalBlock;
  const Space space(real_fit_, fake_fit_, options_.witness != nullptr, options_.seed);
  const Proposals proposals(pair_, options_.seed, Phase::kCalibrationTrial, options_.threads);
  std::vector<Tensor> features;
  std::vector<std::vector<Tensor>> scores(fitted_.size());
  for (int64_t from = 0; from < count; from += round) {
    tell("judging proposals", from, count);
    const Opinions said = proposals.opinions(from, std::min(round, count - from), everything());
    check_finite(said);
    features.push_back(space(said));
    parallel_tasks(static_cast<int64_t>(fitted_.size()), threads_, [&](int64_t s) {
      scores[static_cast<size_t>(s)].push_back(fitted_[static_cast<size_t>(s)].calibration.apply(said));
    });
  }
  features_ = at::cat(features);
  real_features_ = space(real_held_out_);
  weights_.resize(fitted_.size());
  parallel_tasks(static_cast<int64_t>(fitted_.size()), threads_, [&](int64_t task) {
    const auto s = static_cast<size_t>(task);
    weights_[s] = at::cat(scores[s]);
    const Tensor on_real = fitted_[s].calibration.apply(real_held_out_);
    fitted_[s].real_scores = to_vector(on_real);
    fitted_[s].quality = calibration_quality(on_real, weights_[s]);
  });
}

void Choice::try_protocols() {
  const Trials trials(features_, real_features_, options_.per_output, options_.seed);
  out_.plain = trials.plain();
  out_.raw = trials.run(ProtocolKind::kChain, fitted_[0], weights_[0]);
  std::vector<ProtocolKind> protocols = {ProtocolKind::kChain, ProtocolKind::kRestarts};
  if (options_.protocol) protocols = {*options_.protocol};
  for (size_t s = options_.method == CalibratorKind::kNone ? 0 : 1; s < fitted_.size(); ++s) {
    for (const ProtocolKind protocol : protocols) {
      ranked_.push_back({s, {}});
      ranked_.back().trial.protocol = protocol;
    }
  }
  tell("trying protocols");
  parallel_tasks(static_cast<int64_t>(ranked_.size()), threads_, [&](int64_t i) {
    check_stop();
    Ranked& r = ranked_[static_cast<size_t>(i)];
    r.trial = trials.run(r.trial.protocol, fitted_[r.fitted], weights_[r.fitted]);
  });
}

void Choice::rank() {
  // By overlap first, then by how far off what comes out may be: a chain that sticks now and then has a large error.
  std::stable_sort(ranked_.begin(), ranked_.end(), [](const Ranked& a, const Ranked& b) {
    if (a.trial.overlap() != b.trial.overlap()) return a.trial.overlap() > b.trial.overlap();
    return a.trial.farthest() < b.trial.farthest();
  });
  // Among those the distance cannot tell from the best, the proper score decides.
  auto chosen = ranked_.begin();
  for (auto r = ranked_.begin(); r != ranked_.end(); ++r) {
    const Trial &t = r->trial, &first = ranked_.front().trial;
    if (t.overlap() == first.overlap() && t.farthest() <= first.farthest() + first.distance_error &&
        t.log_loss < chosen->trial.log_loss)
      chosen = r;
  }
  std::rotate(ranked_.begin(), chosen, chosen + 1);
}

void Choice::settle() {
  for (const auto& r : ranked_) out_.trials.push_back(r.trial);
  const Ranked& best = ranked_.front();
  const Fitted& fitted = fitted_[best.fitted];
  out_.per_output = options_.per_output;
  out_.space = space_name();
  out_.expected = best.trial;
  out_.calibration = fitted.calibration;
  out_.real_scores = fitted.real_scores;
  out_.quality = fitted.quality;
  out_.raw_quality = fitted_[0].quality;
  out_.protocol = best.trial.protocol;
  if (out_.protocol == ProtocolKind::kChain)
    out_.advised_per_output = thinning(to_vector(weights_[best.fitted]), options_.seed);
  double least = fitted_[0].quality.log_loss;
  for (const auto& f : fitted_) least = std::min(least, f.quality.log_loss);
  if (least < kApart)
    out_.warnings.push_back(fmt::format(
        "Real and generated images do not overlap (log-loss {:.2g} on held-out images): there is no density ratio to "
        "filter by. The generator has to learn more first.",
        least));
  // Asked to choose freely, no filter at all is a choice too, and the one to make where the gain is in doubt.
  if (!options_.method && !options_.protocol &&
      (least < kApart || !best.trial.sound() || best.trial.farthest() > out_.plain.distance))
    out_.protocol = ProtocolKind::kPlain;
  if (thinned_ && out_.protocol == ProtocolKind::kChain) {
    options_.per_output = out_.per_output = std::min(out_.advised_per_output, kMostThinning);
    out_.expected = Trials(features_, real_features_, options_.per_output, options_.seed)
                        .run(ProtocolKind::kChain, fitted, weights_[best.fitted]);
  }
}

std::vector<std::string> after_auto(std::vector<std::string> names) {
  names.insert(names.begin(), kFreely);
  return names;
}

void check_name(const char* what, const std::string& name, const std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw ConfigError(fmt::format("{} '{}': must be {}", what, name, alternatives(names)));
}

}  // namespace

std::vector<std::string> calibrated_methods() { return after_auto(names_of(calibrators())); }

std::optional<CalibratorKind> parse_calibrated_method(const std::string& name) {
  check_name("method", name, calibrated_methods());
  if (name == kFreely) return {};
  return parse_calibrator(name);
}

std::vector<std::string> calibrated_protocols() {
  std::vector<std::string> names = after_auto(metropolis_protocols());
  names.push_back(to_string(ProtocolKind::kPlain));
  return names;
}

std::optional<ProtocolKind> parse_calibrated_protocol(const std::string& name) {
  check_name("protocol", name, calibrated_protocols());
  if (name == kFreely) return {};
  return parse_protocol(name);
}

void CalibrateOptions::validate() const {
  if (protocol) parse_calibrated_protocol(to_string(*protocol));
  if (!(penalty > 0)) throw ConfigError(fmt::format("penalty {}: must be positive", penalty));
  if (per_output < 0) throw ConfigError(fmt::format("proposals per output {}: must not be negative", per_output));
}

ChosenCalibration choose_calibration(const Pair& pair, const Tensor& real, const CalibrateOptions& options,
                                     Observer& observer) {
  // Only tasks use several cores: the result is the same for any number of them.
  const SingleThreaded one_thread;
  return Choice(pair, real, options, observer).run(real);
}

}  // namespace hastings
