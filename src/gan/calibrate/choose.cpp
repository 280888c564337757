#include "hastings/gan/calibrate/choose.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "../numbers.h"
#include "hastings/core/accept.h"
#include "hastings/core/error.h"
#include "hastings/core/parallel.h"
#include "hastings/core/registry.h"
#include "hastings/gan/filter/propose.h"
#include "judge.h"

namespace hastings {
namespace {

constexpr int64_t kMostThinning = 100;                           // proposals an output, where the chain may choose
constexpr double kEnoughUnique = 0.5, kEnoughAcceptance = 0.02;  // below, a chain does not move
constexpr double kApart = 1e-3;                                  // a log-loss below: real and generated do not overlap
constexpr double kGoodUnique = 0.85, kGoodAcceptance = 0.2;      // above, it does not stick by bad luck either

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

struct Candidate {
  std::string method;
  std::vector<double> penalties;
};

std::vector<Candidate> candidates(const CalibrateOptions& o, bool features) {
  if (o.method == "none") return {};
  if (o.method != "auto") return {{o.method, {o.penalty}}};
  // The dearest first.
  std::vector<std::string> methods = {"refit"};
  if (features) methods.push_back("head");
  if (o.witness) methods.insert(methods.end(), {"logit+witness", "witness"});
  std::vector<Candidate> out;
  for (const auto& method : methods) out.push_back({method, {1e-5, 1e-4, 1e-3, 1e-2, 1e-1}});
  for (const char* method : {"isotonic", "beta", "platt"}) out.push_back({method, {0}});
  return out;
}

void explain(ChosenCalibration& c, const CalibrateOptions& o) {
  auto& say = c.reasons;
  const Trial &e = c.expected, &p = c.plain;
  if (c.protocol == ProtocolKind::kPlain && e.sound() && e.farthest() <= p.distance) {
    say.push_back("No filter: real and generated images do not overlap.");
  } else if (c.protocol == ProtocolKind::kPlain) {
    say.push_back(
        fmt::format("No filter: nothing tried brings the samples nearer to held-out images than the generator's own "
                    "({:.2f}, error {:.2f}, in {}).",
                    p.distance, p.distance_error, c.space));
  } else {
    say.push_back(fmt::format("{}: held-out distance {:.2f} (error {:.2f}) in {}; the plain generator has {:.2f}.",
                              e.name(), e.distance, e.distance_error, c.space, p.distance));
    say.push_back(
        fmt::format("Its log-loss on held-out data is {:.3f} (a constant has {:.3f}), acceptance {:.2f}, {:.0f} % of "
                    "the outputs differ.",
                    e.log_loss, std::log(2.0), e.acceptance, 100 * e.unique));
  }
  const Trial& r = c.raw;
  const bool raw_used = o.method == "none" && c.protocol != ProtocolKind::kPlain;
  if (!r.sound()) {
    const std::string text = fmt::format(
        "With the discriminator's own logits a chain would accept {:.2g} % of the proposals and {:.0f} % of its "
        "outputs would be "
        "repeats (log-loss {:.2f}; a constant has {:.2f}): they are {}.",
        100 * r.acceptance, 100 * (1 - r.unique), r.log_loss, std::log(2.0),
        r.log_loss > std::log(2.0) ? "far too sure of themselves" : "too sharp for the overlap there is");
    (raw_used ? c.warnings : say).push_back(text);
  }
  if (c.protocol != ProtocolKind::kPlain && !e.sound() && !raw_used)
    c.warnings.push_back(
        fmt::format("{}: acceptance {:.2g}, {:.0f} % of the outputs are repeats: the chain hardly moves.", e.name(),
                    e.acceptance, 100 * (1 - e.unique)));
  if (c.quality.accuracy > 0.9 && c.protocol != ProtocolKind::kPlain)
    c.warnings.push_back(fmt::format(
        "The calibrated score tells {:.0f} % of held-out real from generated images: few proposals can pass "
        "for real. More proposals an "
        "output (--per-output), a milder calibration (a smaller --penalty) or a discriminator stopped "
        "earlier would help.",
        100 * c.quality.accuracy));
  if (c.protocol == ProtocolKind::kChain && c.advised_per_output > 2 * o.per_output)
    c.warnings.push_back(fmt::format(
        "By its autocorrelation the chain wants {} proposals an output for one repeat in twenty; it has {}.",
        c.advised_per_output, o.per_output));
}

}  // namespace

int Trial::overlap() const { return !sound() ? 0 : acceptance >= kGoodAcceptance && unique >= kGoodUnique ? 2 : 1; }

double Trial::farthest() const { return distance + 2 * distance_error; }

bool Trial::sound() const {
  return log_loss < std::log(2.0) && acceptance >= kEnoughAcceptance && unique >= kEnoughUnique;
}

std::string Trial::name() const {
  if (protocol == ProtocolKind::kPlain) return "plain generator";
  return fmt::format("{}{}, {}", method == "none" ? "raw logits" : method,
                     Calibration::of_features(method) ? fmt::format(" (C = {:g})", penalty) : "", to_string(protocol));
}

std::vector<std::string> calibrated_protocols() {
  std::vector<std::string> names = metropolis_protocols();
  names.insert(names.begin(), "auto");
  names.push_back(to_string(ProtocolKind::kPlain));
  return names;
}

std::optional<ProtocolKind> parse_calibrated_protocol(const std::string& name) {
  const auto names = calibrated_protocols();
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw ConfigError(fmt::format("protocol '{}': must be {}", name, alternatives(names)));
  if (name == names.front()) return {};
  return parse_protocol(name);
}

void CalibrateOptions::validate() const {
  static const std::set<std::string> methods = {"auto", "none",  "platt",   "beta",         "isotonic",
                                                "head", "refit", "witness", "logit+witness"};
  if (!methods.contains(method))
    throw ConfigError(fmt::format(
        "method '{}': must be auto, none, platt, beta, isotonic, head, refit, witness or logit+witness", method));
  if (protocol) parse_calibrated_protocol(to_string(*protocol));
  if (!(penalty > 0)) throw ConfigError(fmt::format("penalty {}: must be positive", penalty));
  if (per_output < 0) throw ConfigError(fmt::format("proposals per output {}: must not be negative", per_output));
}

ChosenCalibration choose_calibration(const Pair& pair, const Tensor& real, const CalibrateOptions& given,
                                     Observer& observer) {
  given.validate();
  CalibrateOptions o = given;
  const bool thinned = o.per_output == 0, last_layer = pair.discriminator->has_features();
  if (thinned) o.per_output = ChosenCalibration{}.per_output;
  const int64_t n = real.size(0), fitting = n / 2;
  if (fitting < 50) throw DataError(fmt::format("{} images are too few to calibrate with (100 at least)", n));
  if (o.method == "head" && !last_layer)
    throw ConfigError("method 'head': the discriminator does not show what its last layer sees");
  if (Calibration::of_witness(o.method) && !o.witness)
    throw ConfigError(fmt::format("method '{}': needs a witness (--witness)", o.method));
  // Only tasks use several cores: the result is the same for any number of them.
  const SingleThreaded one_thread;
  const int threads = resolve_threads(o.threads);
  auto check_stop = [&] {
    if (observer.should_stop()) throw Interrupted("calibration interrupted");
  };
  auto tell = [&](const std::string& phase, int64_t done, int64_t of) {
    check_stop();
    LearnProgress p;
    p.phase = "calibrate: " + phase;
    p.iteration = done;
    p.max_iterations = of;
    observer.on_learn(p);
  };
  const Questions everything{true, o.witness.get()};
  auto finite = [](const Opinions& said) {
    auto good = [](const Tensor& x) { return !x.defined() || at::isfinite(x).all().item<bool>(); };
    if (!good(said.logits) || !good(said.features))
      throw NumericalError("the discriminator gives scores that are not finite");
    if (!good(said.witness)) throw NumericalError("the witness gives features that are not finite");
  };

  // Shuffled: neighbours in a data set are alike. One half calibrates, the other judges.
  const Tensor order = Stream(o.seed, Phase::kCalibrationSplit, 0, Purpose::kBatch).permutation(n);
  tell("scores of real images", 0, 1);
  const Opinions all_real = opinions_of(pair, real.index_select(0, order), everything, o.threads);
  finite(all_real);
  const Opinions real_fit = all_real.rows(0, fitting), real_judge = all_real.rows(fitting, n - fitting);
  const int64_t fakes = std::min<int64_t>(4 * fitting, 20000);
  tell("scores of generated images", 0, 1);
  const Opinions fake_fit = Proposals(pair, o.seed, Phase::kCalibration, o.threads).opinions(0, fakes, everything);
  finite(fake_fit);

  ChosenCalibration out;
  const auto wanted = candidates(o, last_layer);
  std::vector<std::vector<Calibration>> fitted(wanted.size());
  std::vector<std::string> failed(wanted.size());
  tell("fitting", 0, 1);
  parallel_tasks(static_cast<int64_t>(wanted.size()), threads, [&](int64_t task) {
    const auto i = static_cast<size_t>(task);
    check_stop();
    try {
      fitted[i] = fit_calibrations(wanted[i].method, wanted[i].penalties, real_fit, fake_fit, o.witness);
    } catch (const NumericalError& error) {
      if (o.method != "auto") throw;
      failed[i] = fmt::format("{} is left out: {}", wanted[i].method, error.what());
    }
  });
  std::vector<Setting> settings(1);  // the first: logits as they are
  for (auto& own : fitted) {
    for (auto& calibration : own) settings.push_back({std::move(calibration), {}, {}});
  }
  for (auto& text : failed) {
    if (!text.empty()) out.warnings.push_back(std::move(text));
  }

  // Judging proposals: scored by every candidate, kept as numbers and as features.
  const int64_t per_part = std::max<int64_t>(o.per_output * 250, 10000) / o.per_output * o.per_output;
  const int64_t judging = Judge::kParts * per_part, round = 16 * kProposalBlock;
  const Space space(real_fit, fake_fit, o.witness != nullptr, o.seed);
  const Proposals judge_proposals(pair, o.seed, Phase::kCalibrationTrial, o.threads);
  std::vector<Tensor> features;
  std::vector<std::vector<Tensor>> scores(settings.size());
  for (int64_t from = 0; from < judging; from += round) {
    tell("judging proposals", from, judging);
    const Opinions said = judge_proposals.opinions(from, std::min(round, judging - from), everything);
    finite(said);
    features.push_back(space(said));
    parallel_tasks(static_cast<int64_t>(settings.size()), threads, [&](int64_t s) {
      scores[static_cast<size_t>(s)].push_back(settings[static_cast<size_t>(s)].calibration.apply(said));
    });
  }
  const Judge judge(at::cat(features), space(real_judge), o.per_output, o.seed);
  std::vector<Tensor> weights(settings.size());
  parallel_tasks(static_cast<int64_t>(settings.size()), threads, [&](int64_t task) {
    const auto s = static_cast<size_t>(task);
    weights[s] = at::cat(scores[s]);
    const Tensor on_real = settings[s].calibration.apply(real_judge);
    settings[s].real_scores = to_vector(on_real);
    settings[s].quality = calibration_quality(on_real, weights[s]);
  });

  out.per_output = o.per_output;
  out.space = o.witness    ? o.witness->name()
              : last_layer ? "the discriminator's features"
                           : "images at 8x8 (the discriminator hides its features)";
  out.plain = judge.plain();
  out.raw = judge.trial(ProtocolKind::kChain, settings[0], weights[0]);
  std::vector<ProtocolKind> protocols = {ProtocolKind::kChain, ProtocolKind::kRestarts};
  if (o.protocol) protocols = {*o.protocol};
  struct Ranked {
    size_t setting;
    Trial trial;
  };
  std::vector<Ranked> ranked;
  for (size_t s = o.method == "none" ? 0 : 1; s < settings.size(); ++s) {
    for (const ProtocolKind protocol : protocols) {
      ranked.push_back({s, {}});
      ranked.back().trial.protocol = protocol;
    }
  }
  tell("trying protocols", 0, 1);
  parallel_tasks(static_cast<int64_t>(ranked.size()), threads, [&](int64_t i) {
    check_stop();
    Ranked& r = ranked[static_cast<size_t>(i)];
    r.trial = judge.trial(r.trial.protocol, settings[r.setting], weights[r.setting]);
  });
  // By overlap first, then by how far off what comes out may be: a chain that sticks now and then has a large error.
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    if (a.trial.overlap() != b.trial.overlap()) return a.trial.overlap() > b.trial.overlap();
    return a.trial.farthest() < b.trial.farthest();
  });
  // Among those the distance cannot tell from the best, the proper score decides.
  auto chosen = ranked.begin();
  for (auto r = ranked.begin(); r != ranked.end(); ++r) {
    const Trial &t = r->trial, &first = ranked.front().trial;
    if (t.overlap() == first.overlap() && t.farthest() <= first.farthest() + first.distance_error &&
        t.log_loss < chosen->trial.log_loss)
      chosen = r;
  }
  std::rotate(ranked.begin(), chosen, chosen + 1);
  for (const auto& r : ranked) out.trials.push_back(r.trial);
  const Ranked& best = ranked.front();
  const Setting& setting = settings[best.setting];
  out.expected = best.trial;
  out.calibration = setting.calibration;
  out.real_scores = setting.real_scores;
  out.quality = setting.quality;
  out.raw_quality = settings[0].quality;
  out.protocol = best.trial.protocol;
  if (out.protocol == ProtocolKind::kChain) out.advised_per_output = thinning(to_vector(weights[best.setting]), o.seed);
  double least = settings[0].quality.log_loss;
  for (const auto& s : settings) least = std::min(least, s.quality.log_loss);
  if (least < kApart)
    out.warnings.push_back(fmt::format(
        "Real and generated images do not overlap (log-loss {:.2g} on held-out images): there is no density ratio to "
        "filter by. The generator has to learn more first.",
        least));
  // Asked to choose freely, no filter at all is a choice too, and the one to make where the gain is in doubt.
  if (o.method == "auto" && !o.protocol &&
      (least < kApart || !best.trial.sound() || best.trial.farthest() > out.plain.distance))
    out.protocol = ProtocolKind::kPlain;
  if (thinned && out.protocol == ProtocolKind::kChain) {
    o.per_output = out.per_output = std::min(out.advised_per_output, kMostThinning);
    out.expected = Judge(at::cat(features), space(real_judge), o.per_output, o.seed)
                       .trial(ProtocolKind::kChain, setting, weights[best.setting]);
  }
  explain(out, o);
  return out;
}

}  // namespace hastings
