// Networks from layer lists, calibration, the filter, training.
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/api/module.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/diagnose/frechet.h"
#include "hastings/gan/calibrate.h"
#include "hastings/gan/choose.h"
#include "hastings/gan/filter.h"
#include "hastings/gan/gan_run.h"
#include "hastings/gan/sample.h"
#include "hastings/gan/train.h"
#include "hastings/learn/objectives.h"
#include "support.h"

namespace hastings {
namespace {

using nlohmann::json;
using test::gap;

std::unique_ptr<Network> network(const std::string& text, uint64_t seed = 1) {
  Stream stream(seed, 0, Purpose::kWeights);
  return build_network(json::parse(text), &stream);
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Network, LayersDoWhatTheirNamesSay) {
  const auto n = network(R"({"input": [2, 8, 8], "layers": [
    {"type": "conv", "out": 4, "kernel": 3, "stride": 2, "padding": 1, "name": "a"}, {"type": "batch_norm", "name": "b"},
    {"type": "leaky_relu", "slope": 0.3}, {"type": "conv_transpose", "out": 3, "kernel": 4, "stride": 2, "padding": 1, "name": "c"},
    {"type": "linear", "out": 5, "name": "d"}, {"type": "tanh"}]})");
  EXPECT_EQ(n->output_shape(), (std::vector<int64_t>{5}));
  const Weights w = n->weights();
  const Tensor x = at::randn({6, 2, 8, 8});
  const at::NoGradGuard no_grad;
  Tensor y = at::conv2d(x, w.at("a.weight"), w.at("a.bias"), 2, 1);
  y = at::batch_norm(y, w.at("b.weight"), w.at("b.bias"), w.at("b.running_mean"), w.at("b.running_var"), false, 0.1,
                     1e-5, false);
  y = at::conv_transpose2d(at::leaky_relu(y, 0.3), w.at("c.weight"), w.at("c.bias"), 2, 1);
  const Tensor features = y.flatten(1), out = at::tanh(at::linear(features, w.at("d.weight"), w.at("d.bias")));
  Tensor shown;
  EXPECT_LT(gap(n->forward(x, &shown), out), 1e-5);
  EXPECT_LT(gap(shown, features), 1e-5);
  EXPECT_TRUE(n->has_features());
}

TEST(Network, BatchStatisticsAreUsedOnlyInTraining) {
  const auto n = network(R"({"input": [3], "layers": [{"type": "linear", "out": 4}, {"type": "batch_norm"}]})");
  const at::NoGradGuard no_grad;
  const Tensor x = at::randn({16, 3});
  const Tensor alone = n->forward(x.narrow(0, 0, 1)), within = n->forward(x).narrow(0, 0, 1);
  EXPECT_LT(gap(alone, within), 1e-6);  // a row does not depend on its batch
  n->train(true);
  EXPECT_GT(gap(n->forward(x).narrow(0, 0, 1), within), 1e-2);
  n->train(false);
  EXPECT_GT(gap(n->forward(x).narrow(0, 0, 1), within), 1e-6);  // and the running statistics have moved
}

TEST(Network, FastTransposedConvolutionHasTheRightGradients) {
  for (const auto& [kernel, stride, padding, size] :
       {std::tuple{4, 1, 0, 1}, {4, 2, 1, 4}, {3, 2, 1, 5}, {4, 1, 0, 3}, {5, 3, 2, 4}}) {
    const auto n = network(fmt::format(R"({{"input": [6, {}, {}], "layers": [
      {{"type": "conv_transpose", "out": 5, "kernel": {}, "stride": {}, "padding": {}, "name": "c"}}]}})",
                                       size, size, kernel, stride, padding));
    const Weights w = n->weights();
    const Tensor x = at::randn({3, 6, size, size}).set_requires_grad(true);
    const Tensor fast = n->forward(x),
                 native = at::conv_transpose2d(x, w.at("c.weight"), w.at("c.bias"), stride, padding);
    EXPECT_LT(gap(fast, native), 1e-5);
    const Tensor g = at::randn_like(native);
    const std::vector<Tensor> inputs = {x, w.at("c.weight"), w.at("c.bias")};
    const auto ours = torch::autograd::grad({(fast * g).sum()}, inputs),
               theirs = torch::autograd::grad({(native * g).sum()}, inputs);
    for (size_t i = 0; i < 3; ++i)
      EXPECT_LT(gap(ours[i], theirs[i]), 1e-3) << i << " kernel " << kernel << " size " << size;
  }
}

TEST(Network, ResidualBranchesPoolsAndShapes) {
  const auto n = network(R"({"input": [4, 6, 6], "layers": [
    {"type": "residual", "layers": [{"type": "conv", "out": 8, "kernel": 3, "stride": 2, "padding": 1, "name": "r"}],
     "shortcut": [{"type": "subsample", "step": 2}, {"type": "pad", "channels_before": 2, "channels_after": 2}]},
    {"type": "branches", "branches": [[{"type": "max_pool", "kernel": 3}], [{"type": "avg_pool", "kernel": 3}, {"type": "relu"}]]},
    {"type": "global_mean"}, {"type": "reshape", "shape": [4, 2, 2]}, {"type": "upsample", "factor": 3}, {"type": "resize", "size": 4},
    {"type": "normalise", "mean": [0.5], "std": [2]}, {"type": "instance_norm"}, {"type": "dropout", "p": 0.3}, {"type": "flatten"}]})");
  EXPECT_EQ(n->output_shape(), (std::vector<int64_t>{64}));
  EXPECT_EQ(n->forward(at::randn({2, 4, 6, 6})).sizes(), (at::IntArrayRef{2, 64}));
  EXPECT_FALSE(n->has_features());
}

TEST(Network, ErrorsNameTheLayer) {
  auto of = [](const std::string& layers) {
    return error_of([&] { network(R"({"input": [1, 8, 8], "layers": )" + layers + "}"); });
  };
  EXPECT_NE(of(R"([{"type": "relu"}, {"type": "konv"}])").find("layer 1 (konv): is not a layer"), std::string::npos);
  EXPECT_NE(of(R"([{"type": "conv", "out": 3}])").find("needs 'kernel'"), std::string::npos);
  EXPECT_NE(of(R"([{"type": "conv", "out": 3, "kernel": 9}])").find("does not fit"), std::string::npos);
  EXPECT_NE(of(R"([{"type": "conv", "out": "many", "kernel": 3}])").find("wrong kind"), std::string::npos);
  EXPECT_NE(of(R"([{"type": "relu", "slop": 1}])").find("does not know 'slop'"), std::string::npos);
  EXPECT_NE(of(R"([{"type": "conv", "out": -1, "kernel": 3}])").find("must be positive"), std::string::npos);
  EXPECT_NE(of(R"([{"type": "reshape", "shape": [3]}])").find("cannot make"), std::string::npos);
  EXPECT_NE(of(R"(["relu"])").find("layer 0"), std::string::npos);
  EXPECT_NE(of(R"({"type": "relu"})").find("list of layers"), std::string::npos);
}

TEST(Network, WeightsLoadByNameWithACommonPrefix) {
  const std::string text = R"({"input": [3], "layers": [{"type": "linear", "out": 2, "name": "fc"}]})";
  const auto source = network(text, 1), other = network(text, 2);
  Weights prefixed;
  for (const auto& [name, value] : source->weights()) prefixed["module.net." + name] = value;
  prefixed["module.net.bn.num_batches_tracked"] = at::ones({1});
  other->load(prefixed, "file");
  EXPECT_EQ(gap(other->weights().at("fc.weight"), source->weights().at("fc.weight")), 0);
  Weights wrong = source->weights();
  wrong["fc.weight"] = at::ones({3, 2});
  EXPECT_NE(error_of([&] { other->load(wrong, "file"); }).find("has shape [3, 2], the network wants [2, 3]"),
            std::string::npos);
  wrong.erase("fc.weight");
  EXPECT_NE(error_of([&] { other->load(wrong, "file"); }).find("has no tensor 'fc.weight'"), std::string::npos);
  wrong = source->weights();
  wrong["extra"] = at::ones({1});
  EXPECT_NE(error_of([&] { other->load(wrong, "file"); }).find("'extra' belongs to no layer"), std::string::npos);
}

// One dimension: p = N(0, 1), q = N(0.5, 1.3^2), everything known.
struct ExactPair {
  static constexpr double kMean = 0.5, kSd = 1.3;
  Tensor proposals, weights;

  ExactPair(int64_t n, uint64_t seed) {
    proposals = Stream(seed, 0, Purpose::kProposal).normal({n}) * kSd + kMean;
    weights = log_ratio_at(proposals);
  }
  static Tensor log_ratio_at(const Tensor& x) { return -0.5 * x.square() + 0.5 * ((x - kMean) / kSd).square(); }
};

Filtered run_filter(const Tensor& weights, const std::string& protocol, int64_t k, std::vector<double> real = {},
                    uint64_t seed = 3, int64_t block = 250) {
  FilterOptions options;
  options.protocol = protocol;
  options.per_output = k;
  options.outputs = weights.size(0) / k;
  options.seed = seed;
  Filter filter(options, std::move(real));
  const Tensor w = weights.contiguous();
  for (int64_t at = 0; at < w.size(0); at += block)
    filter.feed({w.data_ptr<double>() + at, static_cast<size_t>(std::min(block, w.size(0) - at))});
  return filter.finish();
}

Tensor chosen_of(const Tensor& proposals, const Filtered& f) {
  return proposals.index_select(0, at::tensor(f.chosen, at::kLong));
}

// Moments of the outputs against the target's; k is large enough for outputs to be nearly independent. False alarms
// about 1 in 3,000 for each z.
TEST(Filter, WithTheExactRatioTheTargetComesOut) {
  const ExactPair exact(600000, 21);
  const Tensor out = chosen_of(exact.proposals, run_filter(exact.weights, "chain", 20));
  EXPECT_LT(std::abs(test::z_score(out, 0)), 3.6);
  EXPECT_LT(std::abs(test::z_score(out.square(), 1)), 3.6);
  EXPECT_LT(std::abs(test::z_score((out > 1).to(at::kDouble), 0.158655)), 3.6);
  std::vector<double> real(20000);
  const Tensor starts = ExactPair::log_ratio_at(Stream(9, 0, Purpose::kExact).normal({20000}));
  std::copy_n(starts.data_ptr<double>(), 20000, real.begin());
  const Filtered restarts = run_filter(exact.weights, "restarts", 20, real);
  EXPECT_LT(static_cast<double>(restarts.stuck) / 30000, 0.01);
  const Tensor from_real = chosen_of(exact.proposals, restarts);
  EXPECT_LT(std::abs(test::z_score(from_real, 0)), 4);
  EXPECT_LT(std::abs(test::z_score(from_real.square(), 1)), 4);
  // The controls: the generator itself, and the ratio upside down, are both caught.
  EXPECT_GT(std::abs(test::z_score(chosen_of(exact.proposals, run_filter(exact.weights, "plain", 20)), 0)), 10);
  EXPECT_GT(std::abs(test::z_score(chosen_of(exact.proposals, run_filter(-exact.weights, "chain", 20)), 0)), 10);
  EXPECT_GT(std::abs(test::z_score(chosen_of(exact.proposals, run_filter(exact.weights, "top", 20)).square(), 1)), 10);
}

TEST(Filter, AConstantDiscriminatorChangesNothing) {
  const Tensor flat = at::full({50000}, 1.7, at::kDouble);
  for (const char* protocol : {"chain", "restarts", "generated"}) {
    const Filtered f = run_filter(flat, protocol, 10, {1.7});
    const Filtered plain = run_filter(flat, "plain", 10);
    EXPECT_EQ(f.chosen, plain.chosen) << protocol;  // every proposal accepted: the very same outputs
    EXPECT_EQ(f.acceptance, 1) << protocol;
    EXPECT_EQ(f.unique, 1) << protocol;
  }
}

TEST(Filter, AConstantAddedToTheScoresCancelsAndBlocksDoNotMatter) {
  const ExactPair exact(20000, 4);
  const Filtered a = run_filter(exact.weights, "chain", 10), b = run_filter(exact.weights + 5, "chain", 10);
  EXPECT_EQ(a.chosen, b.chosen);
  const std::vector<double> real = {0.1, 0.2, 0.3};
  // The uniforms of restarts belong to outputs, whatever the blocks.
  EXPECT_EQ(run_filter(exact.weights, "restarts", 10, real, 3, 250).chosen,
            run_filter(exact.weights, "restarts", 10, real, 3, 97).chosen);
}

TEST(Filter, NanAndInfinityNeverWin) {
  Tensor weights = Stream(1, 0, Purpose::kData).normal({5000});
  weights.index_put_({at::arange(0, 5000, 7)}, at::tensor(std::nan(""), at::kDouble));
  weights.index_put_({at::arange(1, 5000, 7)}, at::tensor(INFINITY, at::kDouble));
  for (const char* protocol : {"chain", "restarts", "generated", "rejection", "top"}) {
    const Filtered f = run_filter(weights, protocol, 10, {0.0});
    const Tensor won = chosen_of(weights, f);
    EXPECT_TRUE(at::isfinite(won).all().item<bool>()) << protocol;
  }
  EXPECT_THROW(run_filter(at::full({50}, std::nan(""), at::kDouble), "top", 5), NumericalError);
}

TEST(Filter, StuckChainsShow) {
  Tensor weights = Stream(1, 0, Purpose::kData).normal({10000});
  weights[100] = 60;  // nothing ever beats it
  const Filtered f = run_filter(weights, "chain", 10);
  EXPECT_LT(f.unique, 0.1);
  EXPECT_GT(f.longest_run, 9000);
}

TEST(Filter, RejectionIsExactWhereItCanBeAndLenientWhereItMust) {
  const ExactPair exact(300000, 8);
  const Filtered f = run_filter(exact.weights, "rejection", 10);  // about 64 % would be accepted
  EXPECT_EQ(f.chosen.size(), 30000u);
  EXPECT_EQ(f.unique, 1);
  const Tensor out = chosen_of(exact.proposals, f);
  EXPECT_LT(std::abs(test::z_score(out, 0)), 3.6);
  EXPECT_LT(std::abs(test::z_score(out.square(), 1)), 3.6);
  Tensor spiked = exact.weights.clone();
  spiked[5] = 30;  // by this one nearly all would be refused
  EXPECT_EQ(run_filter(spiked, "rejection", 10).chosen.size(), 30000u);
}

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

// Appendix B.2: where the discriminator is sure, AR has no gradient left and ARLB has all of it.
TEST(Objectives, ArVanishesUnderAConfidentDiscriminatorAndArlbDoesNot) {
  const Tensor real = at::full({64}, 12.0, at::kDouble), sure = at::full({64}, -12.0, at::kDouble),
               unsure = at::full({64}, 11.5, at::kDouble);
  EXPECT_LT(evaluate(Objective::kAr, sure, real).grad_candidate.abs().sum().item<double>(), 1e-9);
  EXPECT_NEAR(evaluate(Objective::kArlb, sure, real).grad_candidate.abs().sum().item<double>(), 1, 1e-12);
  EXPECT_GT(evaluate(Objective::kAr, unsure, real).grad_candidate.abs().sum().item<double>(), 0.5);
}

TEST(Frechet, AgreesWithTheClosedForm) {
  const Tensor x = Stream(1, 0, Purpose::kData).normal({5000, 3});
  const FeatureMoments a = feature_moments(x), b = feature_moments(x * at::tensor({2.0, 1.0, 0.5}, at::kDouble) + 1);
  EXPECT_NEAR(frechet_distance(a, a), 0, 1e-9);
  // Covariances that commute: sum over coordinates only if they are diagonal, which they nearly are.
  const Tensor sd = x.std(0), mean = x.mean(0) * at::tensor({1.0, 0.0, -0.5}, at::kDouble) + 1;
  const Tensor gaps = sd * at::tensor({1.0, 0.0, -0.5}, at::kDouble);
  EXPECT_NEAR(frechet_distance(a, b), (mean.square().sum() + gaps.square().sum()).item<double>(), 0.02);
  EXPECT_NEAR(frechet_distance(a, b), frechet_distance(b, a), 1e-9);
  FeatureMoments flat = a;  // of rank one
  flat.covariance = at::ones({3, 3}, at::kDouble);
  EXPECT_TRUE(std::isfinite(frechet_distance(flat, flat)));
  EXPECT_NEAR(frechet_distance(flat, flat), 0, 1e-6);
}

std::string tiny_pair() { return preset_pair("dcgan", {1, 8, 8}, 4, 6); }

Tensor blobs(int64_t n, uint64_t seed) {
  const Tensor shift = (Stream(seed, 0, Purpose::kData).uniform({n, 1, 1, 1}) * 120).to(at::kFloat);
  const Tensor ramp = at::linspace(0, 120, 8).view({1, 1, 1, 8}).expand({n, 1, 8, 8});
  return (ramp + shift).to(at::kByte);
}

TEST(Train, GoesOnBitForBit) {
  const Tensor pixels = blobs(200, 1);
  for (const char* loss : {"dcgan", "ar", "arlb", "wgan-gp"}) {
    GanTrainOptions options;
    options.loss = loss;
    options.batch = 16;
    options.iterations = 8;
    Pair straight = fresh_pair(tiny_pair(), 3);
    GanTrainer a(straight, pixels, options);
    Weights middle;
    for (int i = 0; i < 8; ++i) {
      if (i == 3) {
        for (const auto& [name, value] : a.state()) middle[name] = value.detach().clone();
      }
      a.step();
    }
    Pair resumed = fresh_pair(tiny_pair(), 99);
    GanTrainer b(resumed, pixels, options);
    b.restore(middle, "state");
    EXPECT_EQ(b.iteration(), 3);
    while (b.iteration() < 8) b.step();
    const Weights x = a.state(), y = b.state();
    for (const auto& [name, value] : x) EXPECT_TRUE(value.equal(y.at(name))) << loss << " " << name;
  }
}

TEST(Train, TheDiscriminatorAndTheGeneratorLearn) {
  // The generator starts grey; real images are bright ramps. After some steps of ARLB its mean brightness has moved
  // there.
  const Tensor pixels = (blobs(500, 2).to(at::kInt) / 2 + 130).to(at::kByte);
  GanTrainOptions options;
  options.batch = 32;
  options.iterations = 150;
  options.learning_rate = 2e-3;
  Pair pair = fresh_pair(tiny_pair(), 5);
  const double wanted = to_network_range(pixels).mean().item<double>();
  auto level = [&] {
    const at::NoGradGuard no_grad;
    Stream stream(1, 0, Purpose::kOutput);
    return pair.generate(pair.latent.draw(stream, 200)).mean().item<double>();
  };
  const double before = std::abs(level() - wanted);
  GanTrainer trainer(pair, pixels, options);
  while (trainer.iteration() < trainer.iterations()) trainer.step();
  EXPECT_LT(std::abs(level() - wanted), before / 2);
}

TEST(Pair, ProposalsAreAFunctionOfTheirNumbers) {
  const Pair pair = fresh_pair(tiny_pair(), 3);
  const Proposals one(pair, 7, 1), two(pair, 7, 2);
  const Opinions a = one.opinions(0, 1000, true), b = two.opinions(300, 400, true);
  EXPECT_TRUE(a.rows(300, 400).logits.equal(b.logits));  // any range, any number of threads
  EXPECT_TRUE(a.rows(300, 400).features.equal(b.features));
  const Tensor images = one.render({5, 999, 5, 251});
  EXPECT_TRUE(images[0].equal(images[2]));
  // What is rendered is what was scored: the discriminator says the same of it, up to the rounding to bytes.
  const Opinions again = opinions_of(pair, images, false, 1);
  EXPECT_NEAR(again.logits[1].item<double>(), a.logits[999].item<double>(), 1e-3);
  EXPECT_NEAR(again.logits[3].item<double>(), a.logits[251].item<double>(), 1e-3);
}

TEST(Pair, RoundingInOneGoIsTheSame) {
  const Tensor x =
      at::cat({at::linspace(-1.5, 1.5, 20001), at::arange(0, 256).add(0.5).div(127.5).sub(1)}).to(at::kFloat);
  EXPECT_TRUE(rounded_to_bytes(x).equal(to_network_range(to_bytes(x))));
}

TEST(Pair, DescriptionErrorsAreTold) {
  EXPECT_NE(error_of([] { preset_pair("dcgan", {3, 28, 28}, 32, 100); }).find("--size"), std::string::npos);
  EXPECT_NE(error_of([] { preset_pair("biggan", {3, 32, 32}, 32, 100); }).find("'biggan'"), std::string::npos);
  EXPECT_NE(error_of([] { fresh_pair("{", 1); }).find("not JSON"), std::string::npos);
  EXPECT_NE(error_of([] { fresh_pair("{}", 1); }).find("image"), std::string::npos);
  EXPECT_NE(
      error_of([] {
        fresh_pair(
            R"({"image": [1, 4, 4], "generator": {"layers": [{"type": "linear", "out": 15}]}, "discriminator": {"layers": []}})",
            1);
      }).find("last layer gives [15]"),
      std::string::npos);
}

TEST(Pair, AClosingSigmoidIsLeftOut) {
  json with = json::parse(preset_pair("mlp", {1, 4, 4}, 8, 3)), without = with;
  with["discriminator"]["layers"].push_back({{"type", "sigmoid"}});
  const Pair a = fresh_pair(with.dump(), 1), b = fresh_pair(without.dump(), 1);
  const Tensor x = at::randn({5, 1, 4, 4});
  EXPECT_TRUE(a.logits(x).equal(b.logits(x)));
}

// A pair of TorchScript modules. The generator's images are level: all pixels tanh(z/2); real ones are brighter.
class ModulePair : public ::testing::Test {
 protected:
  void SetUp() override {
    make_directory(folder_);
    torch::jit::Module generator("Generator"), discriminator("Discriminator"), hidden("Hidden");
    generator.define("def forward(self, z):\n  return torch.tanh(z / 2).reshape(-1, 1, 1, 1).expand(-1, 1, 4, 4)\n");
    discriminator.define(
        "def features(self, x):\n  return x.flatten(1)\n"
        "def forward(self, x):\n  return 3 * x.flatten(1).mean(1)\n");
    hidden.define("def forward(self, x):\n  return torch.sigmoid(3 * x.flatten(1).mean(1, True))\n");
    generator.save(folder_ + "/G.pt");
    discriminator.save(folder_ + "/D.pt");
    hidden.save(folder_ + "/P.pt");
  }
  std::string describe(const std::string& generator, const std::string& discriminator, const std::string& output) {
    const json pair = {{"image", {1, 4, 4}},
                       {"generator", {{"latent", {{"dim", 1}}}, {"module", generator}}},
                       {"discriminator", {{"module", discriminator}, {"output", output}}}};
    write_file(folder_ + "/pair.json", pair.dump());
    return folder_ + "/pair.json";
  }
  std::string folder_ = (std::filesystem::path(::testing::TempDir()) / "hastings-modules").string();
};

TEST_F(ModulePair, IsAPairLikeAnyOther) {
  const Pair pair = load_pair(describe("G.pt", "D.pt", "logit"));
  const Tensor z = at::linspace(-2, 2, 5).unsqueeze(1), images = pair.generate(z);
  EXPECT_LT(gap(images.flatten(1).mean(1), at::tanh(z.squeeze(1) / 2)), 1e-6);
  Tensor features;
  EXPECT_LT(gap(pair.logits(images, &features), 3 * at::tanh(z.squeeze(1) / 2)), 1e-6);
  EXPECT_EQ(features.size(1), 16);
  // A module that gives d itself, and hides its features, is the same discriminator.
  const Pair other = load_pair(describe("G.pt", "P.pt", "probability"));
  EXPECT_LT(gap(other.logits(images), pair.logits(images)), 1e-5);
  EXPECT_FALSE(other.discriminator->has_features());

  // Both are calibrated and sampled with; the filter moves the images towards the real, brighter ones.
  Stream stream(5, 0, Purpose::kData);
  const Tensor level = at::tanh(stream.normal({2000}) / 2 + 0.4).reshape({-1, 1, 1, 1}).expand({-1, 1, 4, 4});
  Observer silent;
  for (const Pair* each : {&pair, &other}) {
    const ChosenCalibration chosen = choose_calibration(*each, to_bytes(level), {}, silent);
    ASSERT_NE(chosen.protocol, "plain");
    FilterOptions filter;
    filter.protocol = chosen.protocol;
    filter.outputs = 2000;
    const Proposals proposals(*each, 1, 1);
    const auto samples = filter_proposals(proposals, chosen, {filter}, silent);
    const double got = to_network_range(proposals.render(samples[0].filtered.chosen)).mean().item<double>();
    EXPECT_NEAR(got, level.mean().item<double>(), 0.06);
    EXPECT_GT(got, 0.2);  // the generator's is 0
  }
}

TEST_F(ModulePair, ErrorsNameTheFile) {
  EXPECT_NE(error_of([&] { load_pair(describe("none.pt", "D.pt", "logit")); }).find("none.pt"), std::string::npos);
  EXPECT_NE(error_of([&] { load_pair(describe("pair.json", "D.pt", "logit")); }).find("not a TorchScript module"),
            std::string::npos);
  EXPECT_NE(error_of([&] { load_pair(describe("D.pt", "D.pt", "logit")); }).find("D.pt: "), std::string::npos);
  EXPECT_NE(error_of([&] { load_pair(describe("G.pt", "G.pt", "logit")); }).find("wanted are two of"),
            std::string::npos);
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
