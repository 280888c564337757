// Calibration of scores, and the choice among calibrators and protocols.
#include "hastings/gan/calibrate/calibrate.h"

#include <fmt/format.h>

#include <filesystem>
#include <numeric>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/core/registry.h"
#include "hastings/gan/calibrate/choice_file.h"
#include "hastings/gan/calibrate/choose.h"
#include "hastings/gan/filter/sample.h"
#include "hastings/gan/network/classifier.h"
#include "hastings/gan/network/preset.h"
#include "support.h"

namespace hastings {
namespace {

using test::error_of;

Opinions opinions(const Tensor& logits, const Tensor& features = {}) { return {logits.to(at::kDouble), features}; }

// Two Gaussians a distance d apart: the true log ratio is d x.
struct TwoGaussians {
  Opinions real, fake;
  TwoGaussians(int64_t n, double d, uint64_t seed, double scale = 1, double shift = 0) {
    const Tensor a = Stream(seed, Phase::kTest, 0, Purpose::kData).normal({n}) + d / 2,
                 b = Stream(seed, Phase::kTest, 1, Purpose::kData).normal({n}) - d / 2;
    real = opinions(a * scale + shift);
    fake = opinions(b * scale + shift);
  }
};

TEST(Calibrate, EveryMethodFindsTheTrueRatio) {
  // The discriminator says five times too much and is off by two.
  const TwoGaussians train(40000, 1.5, 1, 7.5, 2), held(40000, 1.5, 2, 7.5, 2);
  const double bayes = calibration_quality((held.real.logits - 2) / 5, (held.fake.logits - 2) / 5).log_loss;
  const CalibrationQuality raw = calibration_quality(held.real.logits, held.fake.logits);
  EXPECT_GT(raw.log_loss, bayes + 0.2);
  EXPECT_NEAR(raw.slope, 0.2, 0.01);
  EXPECT_GT(std::abs(raw.z), 10);
  for (const char* method : {"platt", "beta", "isotonic"}) {
    const Calibration c = fit_calibration(parse_calibrator(method), 0, train.real, train.fake);
    const Tensor real = c.apply(held.real), fake = c.apply(held.fake);
    const CalibrationQuality q = calibration_quality(real, fake);
    EXPECT_LT(q.log_loss, bayes + 0.002) << method;
    EXPECT_NEAR(q.slope, 1, 0.05) << method;
    EXPECT_LT(std::abs(q.z), 5.7) << method;  // four standard errors: of the held-out part, and of as large a fit
    EXPECT_NEAR(q.odds_fake, 1, 0.08) << method;
    EXPECT_NEAR(q.odds_real, 1, 0.08) << method;
    EXPECT_GT(q.auc, 0.85) << method;
    if (std::string(method) == "platt") {
      EXPECT_NEAR(c.slope, 0.2, 0.005);
      EXPECT_NEAR(c.offset, -0.4, 0.05);
    }
  }
}

// Classes that do not overlap at all: every method ends, with finite ratios.
TEST(Calibrate, SeparatedClassesEndInFiniteRatios) {
  const TwoGaussians train(1000, 60, 3, 100), held(1000, 60, 4, 100);
  Opinions real = train.real, fake = train.fake;
  real.features = real.logits.to(at::kFloat).unsqueeze(1).expand({1000, 5}).contiguous();
  fake.features = fake.logits.to(at::kFloat).unsqueeze(1).expand({1000, 5}).contiguous();
  for (const char* method : {"platt", "beta", "isotonic", "head", "refit"}) {
    const Calibration c = fit_calibration(parse_calibrator(method), 0.1, real, fake);
    const Tensor r = c.apply(real), f = c.apply(fake);
    EXPECT_TRUE(at::isfinite(r).all().item<bool>() && at::isfinite(f).all().item<bool>()) << method;
    EXPECT_LT(calibration_quality(r, f).log_loss, 0.1) << method;
  }
}

TEST(Calibrate, IsotonicRisesAndNeverReachesInfinity) {
  const TwoGaussians train(2000, 6, 3);  // nearly separated
  const Calibration c = fit_calibration(parse_calibrator("isotonic"), 0, train.real, train.fake);
  for (size_t i = 1; i < c.knots.size(); ++i) {
    EXPECT_GT(c.knots[i], c.knots[i - 1]);
    EXPECT_GT(c.log_odds[i], c.log_odds[i - 1]);
  }
  const Tensor far = c.apply(opinions(at::tensor({-1e9, 1e9, std::nan("")}, at::kDouble)));
  EXPECT_TRUE(std::isfinite(far[0].item<double>()) && std::isfinite(far[1].item<double>()));
  EXPECT_TRUE(std::isnan(far[2].item<double>()));
}

TEST(Calibrate, ANewLastLayerIsSolvedToItsOptimum) {
  const int64_t n = 3000, width = 12;
  const Tensor a = Stream(1, Phase::kTest, 0, Purpose::kData).normal({n, width}).to(at::kFloat),
               b = Stream(1, Phase::kTest, 1, Purpose::kData).normal({n, width}).to(at::kFloat);
  const Tensor shift = at::linspace(0, 0.5, width);
  const Tensor xa = a * 3 + 10 + 3 * shift, xb = b * 3 + 10;  // scale and place of the features must not matter
  const Opinions real = opinions(xa.sum(1), xa), fake = opinions(xb.sum(1), xb);
  for (const char* method : {"head", "refit"}) {
    const Calibration c = fit_calibration(parse_calibrator(method), 100, real, fake);
    // The stationarity condition of unpenalised logistic regression, on the features themselves.
    const Tensor d = at::sigmoid(c.apply(real)), e = at::sigmoid(c.apply(fake));
    const Tensor score = ((1 - d).unsqueeze(1) * a.to(at::kDouble)).mean(0) -
                         (e.unsqueeze(1) * (b.to(at::kDouble))).mean(0) + shift.to(at::kDouble) * (1 - d).mean();
    EXPECT_LT(score.abs().max().item<double>(), 2e-3) << method;
    EXPECT_LT(calibration_quality(c.apply(real), c.apply(fake)).log_loss,
              calibration_quality(real.logits - real.logits.mean(), fake.logits - real.logits.mean()).log_loss);
  }
  const Calibration strong = fit_calibration(parse_calibrator("head"), 1e-7, real, fake);
  EXPECT_LT(strong.apply(real).std().item<double>(), 0.05);  // the ridge holds it down
  EXPECT_NE(
      error_of([&] { fit_calibration(parse_calibrator("head"), 1, opinions(xa.sum(1)), fake); }).find("does not show"),
      std::string::npos);
  EXPECT_NE(error_of([&] { fit_calibration(parse_calibrator("magic"), 1, real, fake); }).find("'magic'"),
            std::string::npos);
}

// What a method looks at, and that what it learns has all the numbers it needs.
TEST(Calibrate, EveryCalibratorIsRegistered) {
  const int64_t n = 200;
  auto said = [&](double shift, uint64_t index) {
    const Tensor x = Stream(1, Phase::kTest, index, Purpose::kData).normal({n, 2}) + shift;
    return Opinions{x.select(1, 0).contiguous(), x.to(at::kFloat), (2 * x).to(at::kFloat)};
  };
  const Opinions real = said(0.5, 0), fake = said(0, 1);
  const std::string page = read_file(HASTINGS_REFERENCE "/../../docs/gan.md");
  for (const auto& entry : calibrators()) {
    EXPECT_NE(page.find(std::string("`") + entry.name + "`"), std::string::npos) << entry.name;
    EXPECT_EQ(parse_calibrator(entry.name), entry.kind);
    EXPECT_EQ(to_string(entry.kind), entry.name);
    EXPECT_NE(help_of(calibrators()).find(std::string(entry.name) + " (" + entry.help), std::string::npos);
    const auto fitted = fit_calibrations(entry.kind, {0.1, 1}, real, fake);
    EXPECT_EQ(fitted.size(), entry.with_ridge() ? 2u : 1u) << entry.name;
    for (const auto& c : fitted) {
      EXPECT_EQ(c.method, entry.kind);
      EXPECT_NO_THROW(c.validate()) << entry.name;
      EXPECT_GT(calibration_quality(c.apply(real), c.apply(fake)).auc, 0.6) << entry.name;
    }
    if (entry.with_ridge()) EXPECT_THROW((Calibration{.method = entry.kind}).validate(), ConfigError) << entry.name;
  }
  EXPECT_EQ(error_of([] { parse_calibrator("magic"); }),
            "calibration 'magic': must be none, platt, beta, isotonic, head, refit, witness or logit+witness");
}

// Images of 2 x 2 pixels: a linear generator, a discriminator of two linear layers; all weights zero.
Pair zero_pair(int latent) {
  Pair pair = fresh_pair(
      fmt::format(
          R"({{"image": [1, 2, 2], "generator": {{"latent": {{"dim": {}}}, "layers": [{{"type": "linear", "out": 4}}]}},
      "discriminator": {{"layers": [{{"type": "linear", "out": 3}}, {{"type": "linear", "out": 1}}]}}}})",
          latent),
      1);
  const at::NoGradGuard no_grad;
  for (const auto* network : {pair.generator.get(), pair.discriminator.get()}) {
    for (auto& p : network->parameters()) p.zero_();
  }
  return pair;
}

// Images whose two rows have these levels.
Tensor images_of(const Tensor& first, const Tensor& second) {
  const Tensor levels = at::stack({first, first, second, second}, 1);
  return to_bytes(levels.clamp(-0.999, 0.999).to(at::kFloat).view({-1, 1, 2, 2}));
}

// One pixel of such an image, as the features of a network.
std::shared_ptr<const FeatureNetwork> pixel_witness(int64_t pixel) {
  const Tensor pick = at::zeros({1, 4});
  pick[0][pixel] = 1;
  const std::string description = fmt::format(R"({{"name": "pixel {}", "input": [1, 2, 2],
      "layers": [{{"type": "linear", "out": 1, "bias": false, "name": "pick"}}]}})",
                                              pixel);
  return std::make_shared<FeatureNetwork>(description, Weights{{"pick.weight", pick}});
}

// A generator whose flaw is known: the discriminator is a perfect judge of it, and then one that is far too sure.
TEST(Choose, WarnsOfLogitsThatAreTooSureAndStillFindsAWay) {
  // Images of one pixel block: G draws brightness N(0, 0.3), real is N(0.15, 0.3): D sees it exactly, times
  // `sharpness`.
  auto pair_with = [](double sharpness) {
    Pair pair = zero_pair(1);
    const at::NoGradGuard no_grad;
    pair.generator->parameters()[0].fill_(0.3);
    auto d = pair.discriminator->parameters();
    d[0].narrow(0, 0, 1).fill_(0.25);  // the mean
    d[2][0][0] = sharpness * 0.15 / 0.09;
    return pair;
  };
  const Tensor level = Stream(4, Phase::kTest, 0, Purpose::kExact).normal({6000}) * 0.3 + 0.15;
  const Tensor real = images_of(level, level);
  Observer silent;
  CalibrateOptions options;
  const ChosenCalibration right = choose_calibration(pair_with(1), real, options, silent);
  EXPECT_NE(right.protocol, ProtocolKind::kPlain);
  EXPECT_LT(right.expected.distance, right.plain.distance / 2);
  EXPECT_TRUE(right.warnings.empty());
  const ChosenCalibration sure = choose_calibration(pair_with(300), real, options, silent);
  EXPECT_NE(sure.protocol, ProtocolKind::kPlain);  // the calibration undoes it
  EXPECT_FALSE(sure.raw.sound());
  bool told = false;
  for (const auto& line : sure.reasons) told = told || line.find("too sure of themselves") != std::string::npos;
  EXPECT_TRUE(told);
  // Who insists on the raw logits is warned beforehand, and the chain itself warns afterwards.
  options.method = CalibratorKind::kNone;
  options.protocol = ProtocolKind::kChain;
  const Pair pair = pair_with(300);
  const ChosenCalibration insisted = choose_calibration(pair, real, options, silent);
  EXPECT_FALSE(insisted.warnings.empty());
  FilterOptions filter;
  filter.outputs = 2000;
  const auto samples =
      filter_proposals(Proposals(pair, 1, Phase::kTest, 1), insisted, {filter}, {1, Phase::kTest}, silent);
  EXPECT_FALSE(samples[0].warnings.empty());
}

// Where no generated image could be a real one, a filter by extrapolated ratios would mean nothing.
TEST(Choose, WithoutOverlapThereIsNoFilter) {
  const Pair pair = zero_pair(1);
  const at::NoGradGuard no_grad;
  pair.generator->parameters()[0].fill_(0.05);
  auto d = pair.discriminator->parameters();
  d[0].narrow(0, 0, 1).fill_(0.25);
  d[2][0][0] = 50;
  const Tensor level =
      Stream(4, Phase::kTest, 0, Purpose::kExact).normal({3000}) * 0.03 + 0.7;  // G is within 0.25 of 0
  const Tensor real = images_of(level, level);
  Observer silent;
  const ChosenCalibration c = choose_calibration(pair, real, {}, silent);
  EXPECT_EQ(c.protocol, ProtocolKind::kPlain);
  ASSERT_FALSE(c.warnings.empty());
  EXPECT_NE(c.warnings.at(0).find("do not overlap"), std::string::npos);
  EXPECT_EQ(c.reasons.at(0).find("No filter"), 0u);
}

// A chain that may choose its thinning repeats itself in about one output of twenty.
TEST(Choose, ThinsAChainByItsAutocorrelation) {
  const Pair pair = zero_pair(1);
  const at::NoGradGuard no_grad;
  pair.generator->parameters()[0].fill_(0.3);
  auto d = pair.discriminator->parameters();
  d[0].narrow(0, 0, 1).fill_(0.25);
  d[2][0][0] = 0.4 / 0.09;  // reals are more than one sd off: acceptance is low
  const Tensor level = Stream(4, Phase::kTest, 0, Purpose::kExact).normal({6000}) * 0.3 + 0.4;
  const Tensor real = images_of(level, level);
  Observer silent;
  CalibrateOptions options;
  options.method = CalibratorKind::kPlatt;
  options.protocol = ProtocolKind::kChain;
  options.per_output = 2;
  const ChosenCalibration close = choose_calibration(pair, real, options, silent);
  EXPECT_LT(close.expected.unique, 0.8);
  options.per_output = 0;
  const ChosenCalibration thinned = choose_calibration(pair, real, options, silent);
  EXPECT_GT(thinned.per_output, 5);
  EXPECT_LT(thinned.per_output, 100);
  EXPECT_GT(thinned.expected.unique, 0.93);
  EXPECT_LT(thinned.expected.unique, 0.995);  // and not far more than it needs
}

// What counts is nearness in the features that are asked for: where the filter does harm to them, there is none.
TEST(Choose, JudgesInTheFeaturesThatAreAskedFor) {
  // Two unrelated blocks of pixels. The generator is wrong about the first only; the second is right as it is, and the
  // better the first, the worse the second: they are tied together.
  const Pair pair = zero_pair(2);
  const at::NoGradGuard no_grad;
  const Tensor g = pair.generator->parameters()[0];  // [4, 2]
  g.select(1, 0).copy_(at::tensor({0.3F, 0.3F, 0.25F, 0.25F}));
  g.select(1, 1).copy_(at::tensor({0.0F, 0.0F, 0.15F, 0.15F}));
  auto d = pair.discriminator->parameters();
  d[0][0].copy_(at::tensor({0.5F, 0.5F, 0.0F, 0.0F}));
  d[2][0][0] = 0.15 / 0.09;
  Stream stream(4, Phase::kTest, 0, Purpose::kExact);
  const Tensor first = stream.normal({6000}) * 0.3 + 0.15, second = stream.normal({6000}) * std::sqrt(0.085);
  const Tensor real = images_of(first, second);
  Observer silent;
  CalibrateOptions options;
  options.witness = pixel_witness(0);
  const ChosenCalibration helps = choose_calibration(pair, real, options, silent);
  EXPECT_NE(helps.protocol, ProtocolKind::kPlain);
  EXPECT_EQ(helps.space, "pixel 0");
  EXPECT_NE(helps.reasons.at(0).find("in pixel 0"), std::string::npos);
  options.witness = pixel_witness(2);
  const ChosenCalibration harms = choose_calibration(pair, real, options, silent);
  EXPECT_EQ(harms.protocol, ProtocolKind::kPlain);
}

// The discriminator looks away from the flaw; another network sees it, and the filter mends it by what that one sees.
TEST(Choose, AWitnessShowsWhatTheDiscriminatorMisses) {
  const Pair pair = zero_pair(2);
  const at::NoGradGuard no_grad;
  const Tensor g = pair.generator->parameters()[0];  // [4, 2]
  g.select(1, 0).copy_(at::tensor({0.3F, 0.3F, 0.0F, 0.0F}));
  g.select(1, 1).copy_(at::tensor({0.0F, 0.0F, 0.3F, 0.3F}));
  auto d = pair.discriminator->parameters();
  d[0][0].copy_(at::tensor({0.0F, 0.0F, 0.5F, 0.5F}));
  d[2][0][0] = 0.1;
  Stream stream(4, Phase::kTest, 0, Purpose::kExact);
  const Tensor first = stream.normal({6000}) * 0.3 + 0.15, second = stream.normal({6000}) * 0.3;
  const Tensor real = images_of(first, second);
  Observer silent;
  CalibrateOptions options;
  const ChosenCalibration alone = choose_calibration(pair, real, options, silent);
  EXPECT_EQ(alone.protocol, ProtocolKind::kPlain);
  options.witness = pixel_witness(0);
  const ChosenCalibration chosen = choose_calibration(pair, real, options, silent);
  EXPECT_TRUE(chosen.calibration.of_witness()) << to_string(chosen.calibration.method);
  EXPECT_LT(chosen.expected.distance, chosen.plain.distance / 10);

  // What is stored samples by the same weights, and its outputs have the mean of the data.
  const std::string folder = (std::filesystem::path(::testing::TempDir()) / "hastings-witness").string();
  OutputFolder run(folder, FolderKind::kGan);
  save_calibration(run, chosen);
  const ChosenCalibration back = load_calibration(folder);
  const Proposals proposals(pair, 5, Phase::kTest, 1);
  const Opinions said = proposals.opinions(0, 500, chosen.calibration.questions());
  EXPECT_TRUE(back.calibration.apply(proposals.opinions(0, 500, back.calibration.questions()))
                  .equal(chosen.calibration.apply(said)));
  EXPECT_FALSE(said.features.defined());
  FilterOptions filter;
  filter.outputs = 4000;
  auto mean_of = [&](ProtocolKind protocol) {
    filter.protocol = protocol;
    const auto got = filter_proposals(proposals, back, {filter}, {5, Phase::kTest}, silent);
    const Tensor images = to_network_range(proposals.render(got[0].filtered.chosen));
    return images.select(2, 0).mean().item<double>();
  };
  EXPECT_NEAR(mean_of(ProtocolKind::kChain), 0.15, 0.03);  // standard error 0.006
  EXPECT_NEAR(mean_of(ProtocolKind::kPlain), 0.0, 0.03);
  filter.outputs = 20;  // a short chain that held one proposal for a while is not stuck
  filter.protocol = ProtocolKind::kChain;
  EXPECT_TRUE(filter_proposals(proposals, back, {filter}, {5, Phase::kTest}, silent)[0].warnings.empty());
  EXPECT_NE(error_of([&] {
              options.witness = nullptr;
              options.method = CalibratorKind::kWitness;
              choose_calibration(pair, real, options, silent);
            }).find("--witness"),
            std::string::npos);
}

// Two classes that no single pixel tells apart: halves of equal and of opposite brightness. After some steps the
// features tell new images apart, and the same seed gives the same network; features that were not learned do worse.
TEST(Classifier, LearnsWhatTellsTheClassesApart) {
  auto images = [](int64_t n, uint64_t seed, Tensor& labels) {
    Stream stream(seed, Phase::kTest, 0, Purpose::kData);
    labels = (stream.uniform({n}) < 0.5).to(at::kLong);
    Tensor x = stream.normal({n, 1, 8, 8});
    const Tensor left = at::where(stream.uniform({n}) < 0.5, at::full({n}, 0.6, at::kDouble),
                                  at::full({n}, -0.6, at::kDouble)),
                 right = left * (2 * labels.to(at::kDouble) - 1);
    x.narrow(3, 0, 4).add_(left.view({n, 1, 1, 1}));
    x.narrow(3, 4, 4).add_(right.view({n, 1, 1, 1}));
    return to_bytes(0.3 * x);
  };
  Tensor labels, new_labels;
  const Tensor pixels = images(4000, 1, labels), fresh = images(2000, 2, new_labels);
  ClassifierOptions options;
  options.width = 8;
  options.steps = 200;
  Observer silent;
  const FeatureNetwork learned = learn_classifiers(pixels, labels, options, silent),
                       again = learn_classifiers(pixels, labels, options, silent);
  EXPECT_TRUE(learned(fresh, 1).equal(again(fresh, 2)));
  EXPECT_TRUE(learned(fresh, 1).allclose(learned.of_images(to_network_range(fresh)), 1e-4, 1e-5));
  const FeatureNetwork renamed = learn_classifiers(pixels, 4 * labels - 1, options, silent);  // labels -1 and 3
  EXPECT_TRUE(learned(fresh, 1).equal(renamed(fresh, 1)));
  options.steps = 1;
  const FeatureNetwork unlearned = learn_classifiers(pixels, labels, options, silent);
  // A fixed, weak rule on the features: the nearer of the two class means.
  auto accuracy = [&](const FeatureNetwork& network) {
    const Tensor x = network(fresh, 1), a = x.index({new_labels == 0}).mean(0), b = x.index({new_labels == 1}).mean(0);
    const Tensor says = (x - b).norm(2, 1) < (x - a).norm(2, 1);
    return (says == (new_labels == 1)).to(at::kDouble).mean().item<double>();
  };
  EXPECT_GT(accuracy(learned), 0.9);
  EXPECT_GT(accuracy(learned), accuracy(unlearned) + 0.1);
  EXPECT_THROW(learn_classifiers(pixels, at::zeros_like(labels), options, silent), DataError);
  EXPECT_THROW(learn_classifiers(pixels, labels.narrow(0, 0, 10), options, silent), DataError);
}

TEST(Choose, AProtocolIsAskedForByName) {
  EXPECT_FALSE(parse_calibrated_protocol("auto"));
  for (const auto& name : calibrated_protocols()) {
    if (name != "auto") EXPECT_EQ(to_string(*parse_calibrated_protocol(name)), name);
  }
  EXPECT_FALSE(parse_calibrated_method("auto"));
  EXPECT_EQ(error_of([] { parse_calibrated_method("guess"); }),
            "method 'guess': must be auto, none, platt, beta, isotonic, head, refit, witness or logit+witness");
  EXPECT_EQ(error_of([] { parse_calibrated_protocol("top"); }),
            "protocol 'top': must be auto, chain, restarts, generated or plain");
}

TEST(Choose, WithNothingToGainThereIsNoFilter) {
  // The generator is perfect: the same uniform noise as the data.
  Pair pair = fresh_pair(preset_pair("mlp", {1, 4, 4}, 8, 3), 2);
  Observer silent;
  const Tensor real = Proposals(pair, 77, Phase::kTest, 1).render([] {
    std::vector<int64_t> n(3000);
    std::iota(n.begin(), n.end(), 0);
    return n;
  }());
  int filtered = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    CalibrateOptions options;
    options.seed = seed;
    const ChosenCalibration c = choose_calibration(pair, real, options, silent);
    // No filter, or by bad luck one that hardly does anything.
    EXPECT_TRUE(c.protocol == ProtocolKind::kPlain || c.expected.acceptance > 0.8)
        << to_string(c.protocol) << " " << c.expected.acceptance;
    filtered += c.protocol == ProtocolKind::kPlain ? 0 : 1;
  }
  EXPECT_LE(filtered, 4);
}

TEST(Choose, IsStoredAndComesBack) {
  const std::string folder = (std::filesystem::path(::testing::TempDir()) / "hastings-choice").string();
  OutputFolder run(folder, FolderKind::kGan);
  ChosenCalibration c;
  c.calibration.method = CalibratorKind::kRefit;
  c.calibration.penalty = 0.01;
  c.calibration.slope = 2.5;
  c.calibration.weight = at::arange(4, at::kDouble);
  c.calibration.bias = -0.5;
  c.protocol = ProtocolKind::kChain;
  c.space = "some features";
  c.real_scores = {1, 2, 3};
  c.reasons = {"because"};
  c.quality.curve_predicted = {0.5};
  c.quality.odds_fake = std::numeric_limits<double>::infinity();
  c.trials = {{CalibratorKind::kBeta, ProtocolKind::kChain, 0, 0.5}};
  save_calibration(run, c);
  const ChosenCalibration back = load_calibration(folder);
  EXPECT_EQ(back.protocol, ProtocolKind::kChain);
  EXPECT_EQ(back.space, "some features");
  EXPECT_EQ(back.real_scores, c.real_scores);
  EXPECT_EQ(back.quality.odds_fake, c.quality.odds_fake);
  EXPECT_EQ(back.trials.at(0).log_loss, 0.5);
  const Opinions o = opinions(at::ones({2}), at::ones({2, 4}));
  EXPECT_TRUE(back.calibration.apply(o).equal(c.calibration.apply(o)));
  EXPECT_EQ(back.calibration.apply(o)[0].item<double>(), 6 - 0.5 + 2.5);
  write_file(folder + "/calibration.json", "{}");
  EXPECT_THROW(load_calibration(folder), DataError);
  EXPECT_THROW(load_calibration(folder + "/nowhere"), ConfigError);
}

}  // namespace
}  // namespace hastings
