// Every kernel leaves its target alone: chains started at exact draws still have the exact distribution after some
// steps. Each test has a broken kernel beside it that the same test must catch.
#include <functional>

#include "hastings/core/accept.h"
#include "hastings/kernel/local.h"
#include "hastings/proposal/flow_proposal.h"
#include "hastings/target/registry.h"
#include "stationarity.h"
#include "support.h"

namespace hastings {
namespace {

using test::departure;
using test::kLimit;
using test::run;

Tensor factor_of(int64_t d) {
  Stream random(5, Phase::kTest, 0, Purpose::kExact);
  return (random.normal({d, d}) * 0.2).tril(-1) + at::diag_embed(random.uniform({d}) * 0.5 + 0.6);
}

class Stationarity : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Target> target_ = find_target(GetParam());
};

TEST_P(Stationarity, RandomWalk) {
  EXPECT_LT(departure(*target_, run(*target_, *make_random_walk(factor_of(target_->dim()), 0.8))), kLimit);
}
TEST_P(Stationarity, Mala) {
  EXPECT_LT(departure(*target_, run(*target_, *make_mala(factor_of(target_->dim()), 0.35))), kLimit);
}
TEST_P(Stationarity, Hmc) {
  EXPECT_LT(departure(*target_, run(*target_, *make_hmc(factor_of(target_->dim()), 0.2, 5))), kLimit);
}

IndependentDraws wide_gaussian(int64_t d, double sd) {
  auto log_prob = [=](const Tensor& x) {
    return x.square().sum(-1) * (-0.5 / (sd * sd)) - static_cast<double>(d) * std::log(sd * std::sqrt(2 * M_PI));
  };
  return {[=](int64_t n, RowStreams noise) {
            const Tensor x = noise.normal(n, d) * sd;
            return std::pair<Tensor, Tensor>(x, log_prob(x));
          },
          log_prob};
}

TEST_P(Stationarity, RandomWalkMixture) {
  const int64_t d = target_->dim();
  EXPECT_LT(
      departure(*target_, run(*target_, *make_random_walk_mixture(wide_gaussian(d, 2.5), 0.5, factor_of(d), 0.7))),
      kLimit);
}

INSTANTIATE_TEST_SUITE_P(All, Stationarity, ::testing::Values("gaussian:3", "ring", "mog", "toy"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

// ---- Negative controls: each must be caught ------------------------------------------------------

// A kernel made of a proposal and a flawed ratio.
class Broken : public LocalKernel {
 public:
  using Step = std::function<LocalInfo(LocalState&, const Density&, RowStreams, RowStreams)>;
  explicit Broken(Step step) : step_(std::move(step)) {}
  bool needs_gradient() const override { return true; }
  LocalInfo step(LocalState& state, const Density& density, RowStreams noise, RowStreams uniforms) const override {
    return step_(state, density, noise, uniforms);
  }

 private:
  Step step_;
};

TEST(NegativeControl, MalaWithoutItsCorrectionIsCaught) {
  const auto target = find_target("toy");
  const Broken kernel([](LocalState& state, const Density& density, RowStreams noise, RowStreams uniforms) {
    const double e = 0.5;
    const Tensor x = state.x + 0.5 * e * e * state.gradient + e * noise.normal(state.x.size(0), 1);
    return metropolis_step(state, x, density(x, true), {}, {}, uniforms.uniform(state.x.size(0)));
  });
  EXPECT_GT(departure(*target, run(*target, kernel)), kLimit);
}

TEST(NegativeControl, StepSizeThatFollowsTheStateIsCaught) {
  const auto target = find_target("toy");
  const Broken kernel([](LocalState& state, const Density& density, RowStreams noise, RowStreams uniforms) {
    const Tensor x = state.x + (0.1 + state.x.abs() * 0.5) * noise.normal(state.x.size(0), 1);
    return metropolis_step(state, x, density(x, true), {}, {}, uniforms.uniform(state.x.size(0)));
  });
  EXPECT_GT(departure(*target, run(*target, kernel)), kLimit);
}

TEST(NegativeControl, IndependentProposalWithoutItsDensityIsCaught) {
  const auto target = find_target("toy");
  const Broken kernel([](LocalState& state, const Density& density, RowStreams noise, RowStreams uniforms) {
    const Tensor x = noise.normal(state.x.size(0), 1) * 2.5;  // log q dropped from the ratio
    return metropolis_step(state, x, density(x, true), {}, {}, uniforms.uniform(state.x.size(0)));
  });
  EXPECT_GT(departure(*target, run(*target, kernel)), kLimit);
}

TEST(NegativeControl, MixtureWithOnlyOneComponentsDensityIsCaught) {
  const auto target = find_target("toy");
  const IndependentDraws wide = wide_gaussian(1, 2.5);
  const Broken kernel([&](LocalState& state, const Density& density, RowStreams noise, RowStreams uniforms) {
    const int64_t n = state.x.size(0);
    const Tensor pick = at::lt(uniforms.uniform(n), 0.5);
    const auto [independent, q] = wide.draw(n, noise);
    const Tensor x = at::where(pick.unsqueeze(1), independent, state.x + noise.normal(n, 1));
    // As if every candidate came from the random walk: its ratio is 1.
    return metropolis_step(state, x, density(x, true), {}, {}, uniforms.uniform(n));
  });
  EXPECT_GT(departure(*target, run(*target, kernel)), kLimit);
}

TEST(NegativeControl, AdaptationLeftOnIsCaught) {
  // The proposal's centre follows the chains while they run: each candidate depends on the state it is tested against.
  const auto target = find_target("toy");
  const Broken kernel([](LocalState& state, const Density& density, RowStreams noise, RowStreams uniforms) {
    const int64_t n = state.x.size(0);
    const Tensor centre = state.x * 0.5;
    const Tensor x = centre + 1.5 * noise.normal(n, 1);
    auto log_q = [&](const Tensor& t) {
      return ((t - centre) / 1.5).square().sum(1) * -0.5;
    };  // the present centre both ways
    return metropolis_step(state, x, density(x, true), log_q(x), log_q(state.x), uniforms.uniform(n));
  });
  EXPECT_GT(departure(*target, run(*target, kernel)), kLimit);
}

}  // namespace
}  // namespace hastings
