#include "hastings/gan/choose.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>

#include "hastings/core/error.h"
#include "hastings/core/parallel.h"
#include "hastings/diagnose/frechet.h"
#include "hastings/diagnose/mean_error.h"
#include "hastings/gan/propose.h"
#include "numbers.h"

namespace hastings {
namespace {

constexpr int64_t kDirections = 64;                              // principal directions distances are taken in
constexpr int kParts = 4;                                        // of the judging proposals, for errors
constexpr int64_t kMostThinning = 100;                           // proposals an output, where the chain may choose
constexpr double kEnoughUnique = 0.5, kEnoughAcceptance = 0.02;  // below, a chain does not move
constexpr double kGoodUnique = 0.85, kGoodAcceptance = 0.2;      // above, it does not stick by bad luck either

// The leading principal directions of standardised features, by subspace iteration.
struct Projection {
  Standardiser standardise;
  Tensor directions;  // [w, d]

  Projection(const Tensor& features, uint64_t seed) : standardise(features) {
    const Tensor x = standardise(features);
    const int64_t d = std::min({kDirections, x.size(1), x.size(0) - 1});
    Stream stream(seed, 0, Purpose::kExact);
    directions = stream.normal({x.size(1), d}).to(at::kFloat);
    for (int i = 0; i < 12; ++i) directions = std::get<0>(at::linalg_qr(x.t().mm(x.mm(directions))));
  }
  Tensor operator()(const Tensor& features) const { return standardise(features).mm(directions); }
};

struct Setting {
  Calibration calibration;
  std::vector<double> real_scores;
  CalibrationQuality quality;
};

// A protocol on parts of the judging proposals, against held-out reals.
Trial try_protocol(const std::string& protocol, const Setting& setting, const Tensor& weights, const Tensor& projected,
                   const FeatureMoments& real, const CalibrateOptions& o) {
  Trial t;
  t.method = setting.calibration.method;
  t.penalty = setting.calibration.penalty;
  t.protocol = protocol;
  t.log_loss = setting.quality.log_loss;
  const int64_t part = weights.size(0) / kParts / o.per_output * o.per_output;
  std::vector<Tensor> chosen;
  std::vector<double> distances;
  for (int k = 0; k < kParts; ++k) {
    FilterOptions f;
    f.protocol = protocol;
    f.per_output = o.per_output;
    f.outputs = part / o.per_output;
    f.seed = o.seed + static_cast<uint64_t>(k);
    Filter filter(f, setting.real_scores);
    filter.feed(to_vector(weights.narrow(0, k * part, part)));
    const Filtered got = filter.finish();
    t.acceptance += got.acceptance / kParts;
    t.unique += got.unique / kParts;
    t.longest_run = std::max(t.longest_run, got.longest_run);
    chosen.push_back(projected.index_select(0, at::tensor(got.chosen, at::kLong) + k * part));
    distances.push_back(frechet_distance(feature_moments(chosen.back()), real));
  }
  const MeanError parts = mean_error(distances);
  // A distance from n outputs is too large by about c/n: from all of them and from the parts follows the one of many
  // (Chong and Forsyth 2020).
  const double all = frechet_distance(feature_moments(at::cat(chosen)), real);
  t.distance = all - (parts.mean - all) / (kParts - 1);
  t.distance_error = parts.error;
  return t;
}

// At how many proposals an output a chain repeats itself in one output of twenty.
int64_t thinning(const std::vector<double>& weights, uint64_t seed) {
  Stream stream(seed, 0, Purpose::kAccept);
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
  if (o.witness) methods.insert(methods.end(), {"logit+features", "features"});
  std::vector<Candidate> out;
  for (const auto& method : methods) out.push_back({method, {1e-5, 1e-4, 1e-3, 1e-2, 1e-1}});
  for (const char* method : {"isotonic", "beta", "platt"}) out.push_back({method, {0}});
  return out;
}

void explain(ChosenCalibration& c, const CalibrateOptions& o) {
  auto& say = c.reasons;
  const Trial &e = c.expected, &p = c.plain;
  if (c.protocol == "plain") {
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
  const bool raw_used = o.method == "none" && c.protocol != "plain";
  if (!r.sound()) {
    const std::string text = fmt::format(
        "With the discriminator's own logits a chain would accept {:.2g} % of the proposals and {:.0f} % of its "
        "outputs would be "
        "repeats (log-loss {:.2f}; a constant has {:.2f}): they are {}.",
        100 * r.acceptance, 100 * (1 - r.unique), r.log_loss, std::log(2.0),
        r.log_loss > std::log(2.0) ? "far too sure of themselves" : "too sharp for the overlap there is");
    (raw_used ? c.warnings : say).push_back(text);
  }
  if (c.protocol != "plain" && !e.sound() && !raw_used)
    c.warnings.push_back(
        fmt::format("{}: acceptance {:.2g}, {:.0f} % of the outputs are repeats: the chain hardly moves.", e.name(),
                    e.acceptance, 100 * (1 - e.unique)));
  if (c.quality.accuracy > 0.9)
    c.warnings.push_back(
        fmt::format("The discriminator tells {:.0f} % of held-out real from generated images: few proposals can pass "
                    "for real. More proposals an "
                    "output (--per-output), a milder calibration (a smaller --penalty) or a discriminator stopped "
                    "earlier would help.",
                    100 * c.quality.accuracy));
  if (c.protocol == "chain" && c.advised_per_output > 2 * o.per_output)
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
  if (protocol == "plain") return "plain generator";
  return fmt::format("{}{}, {}", method == "none" ? "raw logits" : method,
                     Calibration::of_features(method) ? fmt::format(" (C = {:g})", penalty) : "", protocol);
}

void CalibrateOptions::validate() const {
  static const std::set<std::string> methods = {"auto", "none",  "platt",    "beta",          "isotonic",
                                                "head", "refit", "features", "logit+features"},
                                     protocols = {"auto", "chain", "restarts", "generated", "plain"};
  if (!methods.contains(method))
    throw ConfigError(fmt::format(
        "method '{}': must be auto, none, platt, beta, isotonic, head, refit, features or logit+features", method));
  if (!protocols.contains(protocol))
    throw ConfigError(fmt::format("protocol '{}': must be auto, chain, restarts, generated or plain", protocol));
  if (!(penalty > 0)) throw ConfigError(fmt::format("penalty {}: must be positive", penalty));
  if (per_output < 0) throw ConfigError(fmt::format("proposals per output {}: must not be negative", per_output));
}

ChosenCalibration choose_calibration(const Pair& pair, const Tensor& real, const CalibrateOptions& given,
                                     Observer& observer) {
  given.validate();
  CalibrateOptions o = given;
  const bool thinned = o.per_output == 0;
  if (thinned) o.per_output = ChosenCalibration{}.per_output;
  const int64_t n = real.size(0), fitting = n / 2;
  if (fitting < 50) throw DataError(fmt::format("{} images are too few to calibrate with (100 at least)", n));
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

  // Shuffled: neighbours in a data set are alike. One half calibrates, the other judges.
  const Tensor order = Stream(o.seed, 0, Purpose::kChoice).permutation(n);
  const Questions everything{true, o.witness.get()};
  tell("scores of real images", 0, 1);
  const Opinions all_real = opinions_of(pair, real.index_select(0, order), everything, o.threads);
  const Opinions real_fit = all_real.rows(0, fitting), real_judge = all_real.rows(fitting, n - fitting);
  const int64_t fakes = std::min<int64_t>(4 * fitting, 20000);
  const Proposals fit_proposals(pair, o.seed ^ 0x9e3779b97f4a7c15ULL, o.threads);
  tell("scores of generated images", 0, 1);
  const Opinions fake_fit = fit_proposals.opinions(0, fakes, everything);
  if (!at::isfinite(real_fit.logits).all().item<bool>() || !at::isfinite(fake_fit.logits).all().item<bool>())
    throw NumericalError("the discriminator gives scores that are not finite");

  // One method after the other on each core; a penalty starts where the one before it ended.
  const auto wanted = candidates(o, pair.discriminator->has_features());
  std::vector<std::vector<Setting>> fitted(wanted.size());
  tell("fitting", 0, 1);
  parallel_tasks(static_cast<int64_t>(wanted.size()), resolve_threads(o.threads), [&](int64_t i) {
    const auto& [method, penalties] = wanted[static_cast<size_t>(i)];
    auto& own = fitted[static_cast<size_t>(i)];
    for (const double c : penalties) {
      check_stop();
      Calibration next =
          fit_calibration(method, c, real_fit, fake_fit, own.empty() ? nullptr : &own.back().calibration);
      if (next.of_witness()) next.witness = o.witness;
      own.push_back({std::move(next), {}, {}});
    }
  });
  std::vector<Setting> settings(1);  // the first: logits as they are
  for (auto& own : fitted) std::move(own.begin(), own.end(), std::back_inserter(settings));

  // Judging proposals: scored by every candidate, kept as numbers and as features. The discriminator's features are
  // reduced to their leading directions; a witness's are taken as they are.
  const int64_t per_part = std::max<int64_t>(o.per_output * 500, 20000) / o.per_output * o.per_output;
  const int64_t judging = kParts * per_part, round = 16 * kProposalBlock;
  std::optional<Projection> project;
  if (!o.witness)
    project.emplace(at::cat({real_fit.features.narrow(0, 0, std::min<int64_t>(fitting, 2000)),
                             fake_fit.features.narrow(0, 0, std::min<int64_t>(fakes, 2000))}),
                    o.seed);
  auto seen = [&](const Opinions& x) { return o.witness ? x.witness : (*project)(x.features); };
  const Proposals judge_proposals(pair, o.seed ^ 0xc2b2ae3d27d4eb4fULL, o.threads);
  std::vector<Tensor> projected;
  std::vector<std::vector<Tensor>> parts(settings.size());
  for (int64_t from = 0; from < judging; from += round) {
    tell("judging proposals", from, judging);
    const int64_t count = std::min(round, judging - from);
    const Opinions opinions = judge_proposals.opinions(from, count, everything);
    projected.push_back(seen(opinions));
    for (size_t s = 0; s < settings.size(); ++s) parts[s].push_back(settings[s].calibration.apply(opinions));
  }
  const Tensor judged = at::cat(projected);
  const FeatureMoments real_moments = feature_moments(seen(real_judge));
  std::vector<Tensor> weights;
  for (size_t s = 0; s < settings.size(); ++s) {
    weights.push_back(at::cat(parts[s]));
    const Tensor scores = settings[s].calibration.apply(real_judge);
    settings[s].real_scores = to_vector(scores);
    settings[s].quality = calibration_quality(scores, weights.back());
  }

  ChosenCalibration out;
  out.per_output = o.per_output;
  out.space = o.witness ? o.witness->name() : "the discriminator's features";
  out.plain = try_protocol("plain", settings[0], weights[0], judged, real_moments, o);
  out.raw = try_protocol("chain", settings[0], weights[0], judged, real_moments, o);
  std::vector<std::string> protocols = {"chain", "restarts"};
  if (o.protocol != "auto") protocols = {o.protocol};
  struct Ranked {
    Trial trial;
    size_t setting;
  };
  std::vector<Ranked> ranked;
  for (size_t s = 0; s < settings.size(); ++s) {
    if (s == 0 && o.method != "none") continue;
    tell("trying protocols", static_cast<int64_t>(s), static_cast<int64_t>(settings.size()));
    for (const auto& protocol : protocols)
      ranked.push_back({try_protocol(protocol, settings[s], weights[s], judged, real_moments, o), s});
  }
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
  out.expected = best.trial;
  out.calibration = settings[best.setting].calibration;
  out.real_scores = settings[best.setting].real_scores;
  out.quality = settings[best.setting].quality;
  out.raw_quality = settings[0].quality;
  out.protocol = best.trial.protocol;
  if (out.protocol == "chain") out.advised_per_output = thinning(to_vector(weights[best.setting]), o.seed);
  // Asked to choose freely, no filter at all is a choice too.
  const double error = std::hypot(best.trial.distance_error, out.plain.distance_error);
  if (o.method == "auto" && o.protocol == "auto" &&
      (!best.trial.sound() || best.trial.distance > out.plain.distance - error))
    out.protocol = "plain";
  if (thinned && out.protocol == "chain") {
    o.per_output = out.per_output = std::min(out.advised_per_output, kMostThinning);
    out.expected = try_protocol("chain", settings[best.setting], weights[best.setting], judged, real_moments, o);
  }
  explain(out, o);
  return out;
}

}  // namespace hastings
