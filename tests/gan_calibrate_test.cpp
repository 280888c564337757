// Calibration of scores, and the choice among calibrators and protocols.
#include <fmt/format.h>

#include <filesystem>
#include <numeric>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/gan/calibrate.h"
#include "hastings/gan/choose.h"
#include "hastings/gan/sample.h"
#include "support.h"

namespace hastings {
namespace {

using test::error_of;

Opinions opinions(const Tensor& logits, const Tensor& features = {}) { return {logits.to(at::kDouble), features}; }

// Two Gaussians a distance d apart: the true log ratio is d x.
struct TwoGaussians {
  Opinions real, fake;
  TwoGaussians(int64_t n, double d, uint64_t seed, double scale = 1, double shift = 0) {
    const Tensor a = Stream(seed, 0, Purpose::kData).normal({n}) + d / 2,
                 b = Stream(seed, 1, Purpose::kData).normal({n}) - d / 2;
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
    const Calibration c = fit_calibration(method, 0, train.real, train.fake);
    const Tensor real = c.apply(held.real), fake = c.apply(held.fake);
    const CalibrationQuality q = calibration_quality(real, fake);
    EXPECT_LT(q.log_loss, bayes + 0.002) << method;
    EXPECT_NEAR(q.slope, 1, 0.05) << method;
    EXPECT_LT(std::abs(q.z), 4) << method;
    EXPECT_NEAR(q.odds_fake, 1, 0.08) << method;
    EXPECT_NEAR(q.odds_real, 1, 0.08) << method;
    EXPECT_GT(q.auc, 0.85) << method;
    if (std::string(method) == "platt") {
      EXPECT_NEAR(c.coefficients[0], 0.2, 0.005);
      EXPECT_NEAR(c.coefficients[1], -0.4, 0.05);
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
    const Calibration c = fit_calibration(method, 0.1, real, fake);
    const Tensor r = c.apply(real), f = c.apply(fake);
    EXPECT_TRUE(at::isfinite(r).all().item<bool>() && at::isfinite(f).all().item<bool>()) << method;
    EXPECT_LT(calibration_quality(r, f).log_loss, 0.1) << method;
  }
}

TEST(Calibrate, IsotonicRisesAndNeverReachesInfinity) {
  const TwoGaussians train(2000, 6, 3);  // nearly separated
  const Calibration c = fit_calibration("isotonic", 0, train.real, train.fake);
  for (size_t i = 1; i < c.knots.size(); ++i) {
    EXPECT_GT(c.knots[i], c.knots[i - 1]);
    EXPECT_GT(c.values[i], c.values[i - 1]);
  }
  const Tensor far = c.apply(opinions(at::tensor({-1e9, 1e9, std::nan("")}, at::kDouble)));
  EXPECT_TRUE(std::isfinite(far[0].item<double>()) && std::isfinite(far[1].item<double>()));
  EXPECT_TRUE(std::isnan(far[2].item<double>()));
}

TEST(Calibrate, ANewLastLayerIsSolvedToItsOptimum) {
  const int64_t n = 3000, width = 12;
  const Tensor a = Stream(1, 0, Purpose::kData).normal({n, width}).to(at::kFloat),
               b = Stream(1, 1, Purpose::kData).normal({n, width}).to(at::kFloat);
  const Tensor shift = at::linspace(0, 0.5, width);
  const Tensor xa = a * 3 + 10 + 3 * shift, xb = b * 3 + 10;  // scale and place of the features must not matter
  const Opinions real = opinions(xa.sum(1), xa), fake = opinions(xb.sum(1), xb);
  for (const char* method : {"head", "refit"}) {
    const Calibration c = fit_calibration(method, 100, real, fake);
    // The stationarity condition of unpenalised logistic regression, on the features themselves.
    const Tensor d = at::sigmoid(c.apply(real)), e = at::sigmoid(c.apply(fake));
    const Tensor score = ((1 - d).unsqueeze(1) * a.to(at::kDouble)).mean(0) -
                         (e.unsqueeze(1) * (b.to(at::kDouble))).mean(0) + shift.to(at::kDouble) * (1 - d).mean();
    EXPECT_LT(score.abs().max().item<double>(), 2e-3) << method;
    EXPECT_LT(calibration_quality(c.apply(real), c.apply(fake)).log_loss,
              calibration_quality(real.logits - real.logits.mean(), fake.logits - real.logits.mean()).log_loss);
  }
  const Calibration strong = fit_calibration("head", 1e-7, real, fake);
  EXPECT_LT(strong.apply(real).std().item<double>(), 0.05);  // the ridge holds it down
  EXPECT_NE(error_of([&] { fit_calibration("head", 1, opinions(xa.sum(1)), fake); }).find("does not show"),
            std::string::npos);
  EXPECT_NE(error_of([&] { fit_calibration("magic", 1, real, fake); }).find("'magic'"), std::string::npos);
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
  const Tensor level = Stream(4, 0, Purpose::kExact).normal({6000}) * 0.3 + 0.15;
  const Tensor real = to_bytes(level.clamp(-0.999, 0.999).to(at::kFloat).view({-1, 1, 1, 1}).expand({6000, 1, 2, 2}));
  Observer silent;
  CalibrateOptions options;
  const ChosenCalibration right = choose_calibration(pair_with(1), real, options, silent);
  EXPECT_NE(right.protocol, "plain");
  EXPECT_LT(right.expected.distance, right.plain.distance / 2);
  EXPECT_TRUE(right.warnings.empty());
  const ChosenCalibration sure = choose_calibration(pair_with(300), real, options, silent);
  EXPECT_NE(sure.protocol, "plain");  // the calibration undoes it
  EXPECT_FALSE(sure.raw.sound());
  bool told = false;
  for (const auto& line : sure.reasons) told = told || line.find("too sure of themselves") != std::string::npos;
  EXPECT_TRUE(told);
  // Who insists on the raw logits is warned beforehand, and the chain itself warns afterwards.
  options.method = "none";
  options.protocol = "chain";
  const Pair pair = pair_with(300);
  const ChosenCalibration insisted = choose_calibration(pair, real, options, silent);
  EXPECT_FALSE(insisted.warnings.empty());
  FilterOptions filter;
  filter.outputs = 2000;
  const auto samples = filter_proposals(Proposals(pair, 1, 1), insisted, {filter}, silent);
  EXPECT_FALSE(samples[0].warnings.empty());
}

// A chain that may choose its thinning repeats itself in about one output of twenty.
TEST(Choose, ThinsAChainByItsAutocorrelation) {
  const Pair pair = zero_pair(1);
  const at::NoGradGuard no_grad;
  pair.generator->parameters()[0].fill_(0.3);
  auto d = pair.discriminator->parameters();
  d[0].narrow(0, 0, 1).fill_(0.25);
  d[2][0][0] = 0.4 / 0.09;  // reals are more than one sd off: acceptance is low
  const Tensor level = Stream(4, 0, Purpose::kExact).normal({6000}) * 0.3 + 0.4;
  const Tensor real = to_bytes(level.clamp(-0.999, 0.999).to(at::kFloat).view({-1, 1, 1, 1}).expand({6000, 1, 2, 2}));
  Observer silent;
  CalibrateOptions options;
  options.method = "platt";
  options.protocol = "chain";
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
  Stream stream(4, 0, Purpose::kExact);
  const Tensor first = stream.normal({6000, 1}) * 0.3 + 0.15, second = stream.normal({6000, 1}) * std::sqrt(0.085);
  const Tensor real =
      to_bytes(at::cat({first, first, second, second}, 1).clamp(-0.999, 0.999).to(at::kFloat).view({-1, 1, 2, 2}));
  Observer silent;
  CalibrateOptions options;
  options.method = "auto";
  auto pixels = [](int64_t from) {
    return [from](const Tensor& x) { return x.flatten(1).narrow(1, from, 1).to(at::kFloat); };
  };
  options.features = pixels(0);
  options.space = "the first pixel";
  const ChosenCalibration helps = choose_calibration(pair, real, options, silent);
  EXPECT_NE(helps.protocol, "plain");
  EXPECT_EQ(helps.space, "the first pixel");
  EXPECT_NE(helps.reasons.at(0).find("in the first pixel"), std::string::npos);
  options.features = pixels(2);
  const ChosenCalibration harms = choose_calibration(pair, real, options, silent);
  EXPECT_EQ(harms.protocol, "plain");
}

TEST(Choose, WithNothingToGainThereIsNoFilter) {
  // The generator is perfect: the same uniform noise as the data.
  Pair pair = fresh_pair(preset_pair("mlp", {1, 4, 4}, 8, 3), 2);
  Observer silent;
  const Tensor real = Proposals(pair, 77, 1).render([] {
    std::vector<int64_t> n(3000);
    std::iota(n.begin(), n.end(), 0);
    return n;
  }());
  const ChosenCalibration c = choose_calibration(pair, real, {}, silent);
  // No filter, or one that hardly does anything.
  EXPECT_TRUE(c.protocol == "plain" || c.expected.acceptance > 0.9) << c.protocol << " " << c.expected.acceptance;
}

TEST(Choose, IsStoredAndComesBack) {
  const std::string folder = (std::filesystem::path(::testing::TempDir()) / "hastings-choice").string();
  make_directory(folder);
  ChosenCalibration c;
  c.calibration = {"refit", 0.01, {2.5}, {}, {}, at::arange(4, at::kDouble), -0.5, {}};
  c.protocol = "chain";
  c.space = "some features";
  c.real_scores = {1, 2, 3};
  c.reasons = {"because"};
  c.quality.curve_predicted = {0.5};
  save_calibration(folder, c);
  const ChosenCalibration back = load_calibration(folder);
  EXPECT_EQ(back.protocol, "chain");
  EXPECT_EQ(back.space, "some features");
  EXPECT_EQ(back.real_scores, c.real_scores);
  const Opinions o = opinions(at::ones({2}), at::ones({2, 4}));
  EXPECT_TRUE(back.calibration.apply(o).equal(c.calibration.apply(o)));
  EXPECT_EQ(back.calibration.apply(o)[0].item<double>(), 6 - 0.5 + 2.5);
  write_file(folder + "/calibration.json", "{}");
  EXPECT_THROW(load_calibration(folder), DataError);
  EXPECT_THROW(load_calibration(folder + "/nowhere"), ConfigError);
}

}  // namespace
}  // namespace hastings
