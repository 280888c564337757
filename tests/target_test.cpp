#include "hastings/core/error.h"
#include "hastings/target/logistic.h"
#include "hastings/target/registry.h"
#include "hastings/target/zoo.h"
#include "support.h"

namespace hastings {
namespace {

const std::vector<std::string> kAll = {
    "ring", "mog2", "mog6",     "ring5",      "icg",    "icg:7",    "scg",    "rough_well",
    "mog",  "toy",  "gaussian", "gaussian:5", "funnel", "funnel:4", "banana", "logistic:simulated"};

class TargetTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Target> target_ = find_target(GetParam());
  Tensor points(int64_t n) const {
    Stream random(1, Phase::kTest, 0, Purpose::kExact);
    return target_->has_exact_sampler() ? target_->exact_draws(n, random) : random.normal({n, target_->dim()});
  }
};

TEST_P(TargetTest, GradientAgreesWithDifferences) {
  const Tensor x = points(30);
  const Gradient g = target_->with_gradient(x);
  // The ripple of rough_well has wavelength 0.06; the kinks of ring5 lie between the rings, where no draw is.
  const double h = 1e-6;
  for (int64_t j = 0; j < std::min<int64_t>(target_->dim(), 6); ++j) {
    Tensor up = x.clone(), down = x.clone();
    up.select(1, j) += h;
    down.select(1, j) -= h;
    const Tensor expected = (target_->log_prob(up) - target_->log_prob(down)) / (2 * h);
    EXPECT_LT(((g.gradient.select(1, j) - expected).abs() / (1 + expected.abs())).max().item<double>(), 2e-4);
  }
}

TEST_P(TargetTest, RowAloneEqualsRowInBatch) {
  const Tensor x = points(17), all = target_->log_prob(x);
  for (int64_t i = 0; i < 17; ++i)
    EXPECT_NEAR(target_->log_prob(x.narrow(0, i, 1)).item<double>(), all[i].item<double>(), 1e-9);
}

TEST_P(TargetTest, NonFinitePointsAreNotAccepted) {
  Tensor x = points(2);
  x[0][0] = std::nan("");
  EXPECT_FALSE(std::isfinite(target_->log_prob(x)[0].item<double>()));
  EXPECT_TRUE(std::isfinite(target_->log_prob(x)[1].item<double>()));
}

// Exact draws have the exact moments (4 standard errors; at most 50 figures a target: false alarms 3e-3 over all).
TEST_P(TargetTest, ExactDrawsHaveTheExactMoments) {
  if (!target_->has_exact_sampler()) GTEST_SKIP() << "no exact sampler";
  const Truth truth = target_->truth();
  const Tensor s = target_->statistics(points(200000));
  for (int64_t j = 0; j < s.size(1); ++j) {
    const double mean = truth.mean[j].item<double>(), sd = truth.sd[j].item<double>();
    EXPECT_LT(std::fabs(test::z_score(s.select(1, j), mean)), 4.2) << j;
    // The fourth moment of the funnel is far too heavy for a z-score of its variance.
    if (GetParam().rfind("funnel", 0) == 0 && j > 0) continue;
    EXPECT_LT(std::fabs(test::z_score((s.select(1, j) - mean).square(), sd * sd)), 4.2) << j;
  }
  if (const auto regions = target_->regions()) {
    EXPECT_NEAR(regions->weights.sum().item<double>(), 1, 1e-12);
    const Tensor region = target_->region_of(points(200000));
    for (int64_t k = 0; k < regions->weights.size(0); ++k) {
      EXPECT_LT(std::fabs(test::z_score(at::eq(region, k).to(at::kDouble), regions->weights[k].item<double>())), 4.2);
    }
  }
}

// log Z by importance sampling from the exact draws: E[g / p] = 1 / Z for a normalised g with lighter tails.
TEST_P(TargetTest, LogZ) {
  const Truth truth = target_->truth();
  if (!truth.log_z || target_->dim() > 2) GTEST_SKIP() << "log Z is checked on a grid in up to two dimensions";
  const bool plane = target_->dim() == 2;
  const double reach = GetParam() == "funnel" ? 0 : (GetParam() == "banana" || GetParam() == "scg" ? 80 : 12);
  if (reach == 0) GTEST_SKIP() << "the funnel is too wide for a grid; it is a product of normal densities";
  const int64_t n = plane ? 4001 : 20001;
  const Tensor axis = at::linspace(-reach, reach, n, at::kDouble);
  double sum = 0;
  if (plane) {
    for (int64_t i = 0; i < n; i += 20) {
      const Tensor rows = axis.narrow(0, i, std::min<int64_t>(20, n - i));
      const Tensor grid = at::stack(at::meshgrid({rows, axis}, "ij"), -1).view({-1, 2});
      sum += target_->log_prob(grid).exp().sum().item<double>();
    }
  } else {
    sum = target_->log_prob(axis.unsqueeze(1)).exp().sum().item<double>();
  }
  const double step = 2 * reach / static_cast<double>(n - 1);
  EXPECT_NEAR(std::log(sum * std::pow(step, plane ? 2 : 1)), *truth.log_z, 2e-3);
}

INSTANTIATE_TEST_SUITE_P(All, TargetTest, ::testing::ValuesIn(kAll), [](const auto& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

TEST(Zoo, KnownFigures) {
  const Truth ring = make_ring()->truth(), ring5 = make_ring5()->truth();
  EXPECT_NEAR(ring.sd[0].item<double>(), 1.4967, 1e-4);
  EXPECT_NEAR(*ring.log_z, 2.534, 1e-3);
  EXPECT_NEAR(ring5.mean[0].item<double>(), 3.673, 1e-3);
  EXPECT_NEAR(ring5.sd[0].item<double>(), 1.252, 1e-3);
  EXPECT_NEAR(*ring5.log_z, 3.509, 1e-3);
  const Tensor mass = make_ring5()->regions()->weights;
  for (int i = 1; i <= 5; ++i) EXPECT_NEAR(mass[i - 1].item<double>(), i / 15.0, 2e-3);
  EXPECT_NEAR(make_mog2()->truth().sd[0].item<double>(), 5.025, 1e-3);
  EXPECT_NEAR(make_mog6()->truth().sd[0].item<double>(), 3.571, 1e-3);
  EXPECT_NEAR(make_icg()->truth().sd[49].item<double>(), 10, 1e-9);
  EXPECT_NEAR(make_icg()->truth().sd[0].item<double>(), 0.1, 1e-9);
}

TEST(Zoo, MixturesDoNotUnderflow) {
  const Tensor far = test::doubles({300.0, 300.0}).view({1, 2});
  EXPECT_TRUE(std::isfinite(make_mog6()->log_prob(far).item<double>()));
}

TEST(Logistic, IsTheSumWrittenOut) {
  Stream random(2, Phase::kTest, 0, Purpose::kData);
  const LabelledTable table = simulate_logistic(random.normal({4}), 1301, random);
  const auto target = make_logistic("t", table);
  const Tensor theta = random.normal({9, 4}) * 3;
  const Tensor design = at::cat({standardised(table.features), at::ones({1301, 1}, at::kDouble)}, 1);
  const Tensor logit = at::matmul(theta, design.t());
  const Tensor expected =
      (table.labels * logit - at::softplus(logit)).sum(1) - 0.5 * theta.square().sum(1) - 2 * std::log(2 * M_PI);
  EXPECT_LT(((target->log_prob(theta) - expected) / expected).abs().max().item<double>(), 1e-11);
  // Extreme parameters stay finite and exact.
  const Tensor huge = theta * 1e4;
  const Tensor margin = (2 * table.labels - 1) * at::matmul(huge, design.t());
  const Tensor limit = margin.clamp_max(0).sum(1) - 0.5 * huge.square().sum(1) - 2 * std::log(2 * M_PI);
  EXPECT_LT(((target->log_prob(huge) - limit) / limit).abs().max().item<double>(), 1e-6);
}

TEST(Registry, UnknownNamesGetNearOnes) {
  try {
    find_target("rign");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("ring"), std::string::npos);
  }
  EXPECT_THROW(find_target("ring:3"), ConfigError);
  EXPECT_THROW(find_target("icg:zero"), ConfigError);
  EXPECT_THROW(find_target("icg:0"), ConfigError);
  EXPECT_THROW(find_target("logistic"), ConfigError);
  EXPECT_THROW(find_target("logistic:/no/such/file"), DataError);
  EXPECT_THROW(make_target("t", 0, [](const Tensor& x) { return x; }), ConfigError);
  const auto wrong = make_target("t", 2, [](const Tensor& x) { return x; });
  EXPECT_THROW(wrong->log_prob(at::zeros({3, 2}, at::kDouble)), ConfigError);
}

// A density that is a sum over data says the same in parts as in whole; minibatches scaled up are unbiased.
TEST(Subsampled, PartsAddUpToTheWhole) {
  Stream random(4, Phase::kTest, 0, Purpose::kData);
  const auto target = make_logistic("parts", simulate_logistic(random.normal({4}), 60, random));
  ASSERT_EQ(target->terms(), 60);
  const Tensor x = random.normal({5, 4}), all = at::arange(60, at::kLong);
  const Gradient whole = target->with_gradient(x), prior = target->log_prior(x, true);
  const Gradient likelihood = target->log_likelihood(x, all, true);
  EXPECT_LT(test::gap(prior.log_prob + likelihood.log_prob, whole.log_prob), 1e-10);
  EXPECT_LT(test::gap(prior.gradient + likelihood.gradient, whole.gradient), 1e-10);
  EXPECT_LT(test::gap(target->log_likelihood(x, all, false).log_prob, likelihood.log_prob), 1e-10);
  EXPECT_LT(test::gap(target->terms_at(x, all).sum(1), likelihood.log_prob), 1e-10);
  // Over a partition into minibatches the scaled-up likelihoods and gradients have the whole one as their mean.
  Tensor mean = at::zeros_like(likelihood.log_prob), gradient = at::zeros_like(likelihood.gradient);
  const Tensor order = random.permutation(60);
  for (int64_t b = 0; b < 6; ++b) {
    const Gradient part = target->log_likelihood(x, order.narrow(0, 10 * b, 10), true);
    mean += 6 * part.log_prob / 6;
    gradient += 6 * part.gradient / 6;
  }
  EXPECT_LT(test::gap(mean, likelihood.log_prob), 1e-10);
  EXPECT_LT(test::gap(gradient, likelihood.gradient), 1e-10);
  // A row that is there twice counts twice.
  EXPECT_LT(test::gap(target->log_likelihood(x, at::tensor({3, 3}, at::kLong), false).log_prob,
                      2 * target->terms_at(x, at::tensor({3}, at::kLong)).select(1, 0)),
            1e-12);
}

}  // namespace
}  // namespace hastings
