// The rivals, held to the contract of our own kernels: chains started at exact draws keep the exact distribution.
#include "hastings/baseline/critic.h"
#include "hastings/baseline/learned_kernels.h"
#include "hastings/baseline/rejection.h"
#include "hastings/core/error.h"
#include "hastings/proposal/flow_proposal.h"
#include "hastings/target/registry.h"
#include "stationarity.h"
#include "support.h"

namespace hastings {
namespace {

Observer silent;

class Rivals : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Target> target_ = find_target(GetParam());
};

TEST_P(Rivals, TunedHmcIsStationary) {
  const TunedHmc hmc = tune_hmc(*target_, {}, silent);
  EXPECT_GT(hmc.step_size, 0.01);
  EXPECT_LT(test::departure(*target_, test::run(*target_, *hmc.kernel)), test::kLimit);
}

// With networks far from zero, so that a wrong log-determinant shows; and learned a little, with every part of the loss
// and at temperatures that are not the target's.
TEST_P(Rivals, L2hmcIsStationary) {
  for (const auto& [heads, iterations] : {std::pair(3.0, 0), std::pair(1e-3, 40)}) {
    L2hmcOptions options;
    options.iterations = iterations;
    options.chains = 50;
    options.leapfrog_steps = 3;
    options.step_size = 0.25;
    options.learning_rate = 0.03;
    options.heads = heads;
    options.burn_in = 1;
    options.temperature = 4;
    const auto kernel = learn_l2hmc(*target_, options, silent);
    EXPECT_LT(test::departure(*target_, test::run(*target_, *kernel)), test::kLimit) << heads;
  }
}

// Learned a little; and with couplings that move far, so that a ratio without N(v) would show.
TEST_P(Rivals, AniceIsStationary) {
  AniceOptions options;
  options.hidden = {{32}, {32}, {32}};
  options.critic = {32, 32};
  options.bootstrap_steps = 60;
  options.bootstrap_burn_in = 20;
  options.bootstrap_every = 10;
  options.learning_rate = 5e-3;
  for (const auto& [heads, iterations] : {std::pair(0.4, 0), std::pair(0.1, 20)}) {
    for (const bool standardise : {false, true}) {
      options.heads = heads;
      options.iterations = iterations;
      options.standardise = standardise;
      const auto kernel = learn_anice(*target_, options, silent);
      EXPECT_LT(test::departure(*target_, test::run(*target_, *kernel)), test::kLimit) << heads << standardise;
    }
  }
}

// Learned a little only: what VI has not found, the walk reaches, and the ratio keeps it exact.
TEST_P(Rivals, VariationalMcmcIsStationary) {
  VariationalMcmcOptions options;
  options.flow.family = "realnvp";
  options.flow.hidden = {32};
  options.learn.max_iterations = 100;
  const auto kernel = learn_variational_mcmc(*target_, options, silent);
  EXPECT_LT(test::departure(*target_, test::run(*target_, *kernel)), test::kLimit);
}

INSTANTIATE_TEST_SUITE_P(All, Rivals, ::testing::Values("gaussian:3", "ring", "mog"), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
});

// A scaling whose log-determinant is left out of the ratio.
TEST(NegativeControl, ScalingWithoutItsLogDeterminantIsCaught) {
  const auto target = find_target("gaussian:3");
  class Scaling : public Kernel {
   public:
    explicit Scaling(const Target& target) : Kernel(decide_exactly(density_of(target))) {}
    Move propose(const State& state, const ChainStreams& streams) const override {
      return {state.x * (0.3 * streams.noise.normal(state.x.size(0), 1)).exp(), {}, {}, {}};
    }
  } broken(*target);
  EXPECT_GT(test::departure(*target, test::run(*target, broken)), test::kLimit);
}

// The step size is the largest that keeps the acceptance wanted: four times the smallest scale of the target is too
// large for any integrator.
TEST(TuneHmc, FindsTheScale) {
  HmcOptions options;
  options.chains = 32;
  options.warmup = 300;
  const double wide = tune_hmc(*find_target("gaussian:10"), options, silent).step_size;
  EXPECT_GT(wide, 0.3);
  EXPECT_LT(wide, 2.0);
  const double narrow = tune_hmc(*find_target("icg:10"), options, silent).step_size;  // smallest sd 0.1
  EXPECT_LT(narrow, 0.25);
  EXPECT_GT(narrow, 0.03);
}

// The mean squared distance of one step of a kernel from these states.
double jump(const Kernel& kernel, const Tensor& x) {
  Stream noise(1, Phase::kTest, 0, Purpose::kLocal), uniforms(1, Phase::kTest, 0, Purpose::kLocalAccept);
  State state = kernel.init(x);
  kernel.step(state, {noise, uniforms});
  return (state.x - x).square().sum(-1).mean().item<double>();
}

TEST(L2hmc, LearnsToMoveFurther) {
  const auto target = find_target("scg");
  Stream random(1, Phase::kTest, 0, Purpose::kExact);
  const Tensor x = target->exact_draws(2000, random);
  auto learned = [&](int64_t iterations) {
    L2hmcOptions options;
    options.iterations = iterations;
    options.chains = 64;
    options.leapfrog_steps = 5;
    return jump(*learn_l2hmc(*target, options, silent), x);
  };
  EXPECT_GT(learned(150), 1.5 * learned(0));
}

// On the rough well gradients through a trajectory are noise, and at a high rate learning only spoils what it has.
TEST(L2hmc, KeepsTheStageThatMovedFurthest) {
  const auto target = find_target("rough_well");
  Stream random(1, Phase::kTest, 0, Purpose::kExact);
  const Tensor x = random.normal({2000, 2});  // next to the target's draws
  auto learned = [&](int64_t iterations) {
    L2hmcOptions options;
    options.iterations = iterations;
    options.learning_rate = 0.01;
    options.chains = 32;
    options.leapfrog_steps = 5;
    return jump(*learn_l2hmc(*target, options, silent), x);
  };
  const double after_a_stage = learned(250);
  EXPECT_GT(after_a_stage, 0.3);
  EXPECT_GT(learned(1000), 0.9 * after_a_stage);
}

// A narrow target far from the origin, in dimensions enough that a chain begun at noise of size one would not come to
// it.
TEST(Anice, LearnsWhereNoiseIsFarFromTheTarget) {
  constexpr int64_t kDim = 8;
  constexpr double kSd = 0.05;
  const auto target =
      make_target("narrow", kDim, [](const Tensor& x) { return ((x - 1) / kSd).square().sum(-1) * -0.5; });
  AniceOptions options;
  options.velocity = 16;
  options.hidden = {{64}, {64}, {64}};
  options.critic = {64, 64, 64};
  options.iterations = 600;
  options.bootstrap_every = 100;
  options.bootstrap_steps = 500;
  options.bootstrap_burn_in = 100;
  options.velocity_weight = 20;
  options.standardise = true;
  const auto kernel = learn_anice(*target, options, silent);
  Stream random(2, Phase::kTest, 0, Purpose::kExact);
  const Tensor x = 1 + kSd * random.normal({2000, kDim});
  EXPECT_GT(jump(*kernel, x) / (kDim * kSd * kSd), 0.2);
}

// The gradient of the penalty is a derivative of a derivative: against central differences of the loss, in every
// parameter; and slopes against those of the loss in the rows of `fake`.
TEST(Critic, GradientAgreesWithDifferences) {
  Critic critic(3, 4, {7, 5});
  Stream random(3, Phase::kTest, 1, Purpose::kExact);
  auto rows = [&](int64_t n) { return random.normal({n, 4}).to(at::kFloat); };
  for (const auto& p : critic.parameters()) p.add_(0.1 * random.normal(p.sizes()).to(at::kFloat));
  const Tensor fake = rows(6), real = rows(3), between = rows(5);
  auto value = [&] { return critic.loss(fake, real, between, 10).value; };
  const Critic::Loss loss = critic.loss(fake, real, between, 10);
  constexpr double kStep = 1e-3;
  auto difference = [&](float& at) {
    const float here = at;
    at = here + static_cast<float>(kStep);
    const double up = value();
    at = here - static_cast<float>(kStep);
    const double down = value();
    at = here;
    return (up - down) / (2 * kStep);
  };
  ASSERT_EQ(loss.gradient.size(), critic.parameters().size());
  double worst = 0, largest = 0;
  for (size_t i = 0; i < loss.gradient.size(); ++i) {
    ASSERT_EQ(loss.gradient[i].sizes(), critic.parameters()[i].sizes());
    const Tensor gradient = loss.gradient[i].contiguous();
    for (int64_t j = 0; j < gradient.numel(); ++j) {
      const double g = gradient.data_ptr<float>()[j];
      worst = std::max(worst, std::fabs(g - difference(critic.parameters()[i].data_ptr<float>()[j])));
      largest = std::max(largest, std::fabs(g));
    }
  }
  EXPECT_GT(largest, 1);
  EXPECT_LT(worst, 0.01 * largest);
  const Tensor slope = critic.slope(fake).contiguous();
  for (int64_t j = 0; j < slope.numel(); ++j)
    EXPECT_NEAR(slope.data_ptr<float>()[j] / 6, difference(fake.data_ptr<float>()[j]), 2e-3);
}

TEST(Anice, DrawsArePairedSoTheirNumberIsEven) {
  AniceOptions options;
  options.batch = 7;
  EXPECT_NE(test::error_of([&] { learn_anice(*find_target("ring"), options, silent); }).find("batch 7"),
            std::string::npos);
}

TEST(Rejection, DrawsAreExactAndTheRateIsOneOverM) {
  const auto target = find_target("gaussian:2");
  FlowSpec spec;
  spec.family = "gaussian";
  const auto wide = make_flow_proposal(spec, {at::zeros({2}, at::kDouble), 1.5 * at::eye(2, at::kDouble)},
                                       GaussianMixture::standard(2), 1);
  const double log_m = 2 * std::log(1.5 * std::sqrt(2 * M_PI));
  Stream random(1, Phase::kTest, 0, Purpose::kProposal);
  const RejectionResult result = rejection_sample(*target, *wide, log_m, 40000, random);
  EXPECT_EQ(result.x.size(0), 40000);
  EXPECT_EQ(result.above, 0);
  const double rate = 1 / 2.25;
  EXPECT_NEAR(result.acceptance(), rate, 4.5 * std::sqrt(rate * (1 - rate) / static_cast<double>(result.candidates)));
  EXPECT_LT(std::fabs(test::z_score(result.x.square().sum(1), 2.0)), 4.5);
  // A bound that does not hold is noticed.
  EXPECT_GT(rejection_sample(*target, *wide, log_m - 1, 1000, random).above, 0);
}

}  // namespace
}  // namespace hastings
