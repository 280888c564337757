// Every kernel leaves its target alone: chains started at exact draws still have the exact distribution after some
// steps. Each test has a broken kernel beside it that the same test must catch.
#include <functional>

#include "hastings/chain/hmc.h"
#include "hastings/chain/independent.h"
#include "hastings/chain/mala.h"
#include "hastings/chain/mixture.h"
#include "hastings/chain/random_walk.h"
#include "hastings/core/accept.h"
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
  EXPECT_LT(departure(*target_, run(*target_, *make_random_walk(density_of(*target_), factor_of(target_->dim()), 0.8))),
            kLimit);
}
TEST_P(Stationarity, Mala) {
  EXPECT_LT(departure(*target_, run(*target_, *make_mala(density_of(*target_), factor_of(target_->dim()), 0.35))),
            kLimit);
}
TEST_P(Stationarity, Hmc) {
  EXPECT_LT(departure(*target_, run(*target_, *make_hmc(density_of(*target_), factor_of(target_->dim()), 0.2, 5))),
            kLimit);
}

std::unique_ptr<Proposal> wide_gaussian(int64_t d, double sd) {
  return make_mixture_proposal(
      {at::zeros({1}, at::kDouble), at::zeros({1, d}, at::kDouble), sd * at::eye(d, at::kDouble).unsqueeze(0)});
}

TEST_P(Stationarity, RandomWalkMixture) {
  const int64_t d = target_->dim();
  const auto wide = wide_gaussian(d, 2.5);
  const auto kernel = make_random_walk_mixture(density_of(*target_), *wide, 0.5, factor_of(d), 0.7);
  EXPECT_LT(departure(*target_, run(*target_, *kernel)), kLimit);
}
// In one batch, and in blocks on two threads: the same chains.
TEST_P(Stationarity, Independent) {
  const auto wide = wide_gaussian(target_->dim(), 2.5);
  const Tensor x = run(*target_, IndependentKernel(density_of(*target_), *wide));
  EXPECT_LT(departure(*target_, x), kLimit);
  EXPECT_LT(test::gap(x, run(*target_, IndependentKernel(density_of(*target_), *wide, {128, 2}))), 1e-9);
}

INSTANTIATE_TEST_SUITE_P(All, Stationarity, ::testing::Values("gaussian:3", "ring", "mog", "toy"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

// ---- Negative controls: each must be caught ------------------------------------------------------

// A kernel made of a proposal and a flawed ratio.
class Broken : public Kernel {
 public:
  using Propose = std::function<Move(const State&, const Density&, const ChainStreams&)>;
  Broken(const Target& target, Propose propose)
      : Kernel(decide_exactly(density_of(target))), density_(density_of(target)), propose_(std::move(propose)) {}
  bool needs_gradient() const override { return true; }
  Move propose(const State& state, const ChainStreams& streams) const override {
    return propose_(state, density_, streams);
  }

 private:
  Density density_;
  Propose propose_;
};

double departure_of(const Broken::Propose& propose) {
  const auto target = find_target("toy");
  return departure(*target, run(*target, Broken(*target, propose)));
}

TEST(NegativeControl, MalaWithoutItsCorrectionIsCaught) {
  EXPECT_GT(departure_of([](const State& state, const Density& density, const ChainStreams& streams) {
              const double e = 0.5;
              const Tensor x = state.x + 0.5 * e * e * state.gradient + e * streams.noise.normal(state.x.size(0), 1);
              return Move{x, density(x, true), {}, {}};
            }),
            kLimit);
}

TEST(NegativeControl, StepSizeThatFollowsTheStateIsCaught) {
  EXPECT_GT(departure_of([](const State& state, const Density& density, const ChainStreams& streams) {
              const Tensor x = state.x + (0.1 + state.x.abs() * 0.5) * streams.noise.normal(state.x.size(0), 1);
              return Move{x, density(x, true), {}, {}};
            }),
            kLimit);
}

TEST(NegativeControl, IndependentProposalWithoutItsDensityIsCaught) {
  EXPECT_GT(departure_of([](const State& state, const Density& density, const ChainStreams& streams) {
              const Tensor x = streams.noise.normal(state.x.size(0), 1) * 2.5;  // log q dropped from the ratio
              return Move{x, density(x, true), {}, {}};
            }),
            kLimit);
}

TEST(NegativeControl, MixtureWithOnlyOneComponentsDensityIsCaught) {
  const auto wide = wide_gaussian(1, 2.5);
  EXPECT_GT(departure_of([&](const State& state, const Density& density, const ChainStreams& streams) {
              const int64_t n = state.x.size(0);
              const Tensor pick = at::lt(streams.accept.uniform(n), 0.5);
              const Draws drawn = wide->from_noise(streams.noise.normal(n, wide->noise_dim()));
              const Tensor x = at::where(pick.unsqueeze(1), drawn.x, state.x + streams.noise.normal(n, 1));
              // As if every candidate came from the random walk: its ratio is 1.
              return Move{x, density(x, true), {}, {}};
            }),
            kLimit);
}

TEST(NegativeControl, AdaptationLeftOnIsCaught) {
  // The proposal's centre follows the chains while they run: each candidate depends on the state it is tested against.
  EXPECT_GT(departure_of([](const State& state, const Density& density, const ChainStreams& streams) {
              const Tensor centre = state.x * 0.5;
              const Tensor x = centre + 1.5 * streams.noise.normal(state.x.size(0), 1);
              auto log_q = [&](const Tensor& t) {
                return ((t - centre) / 1.5).square().sum(1) * -0.5;
              };  // the present centre both ways
              return Move{x, density(x, true), log_q(x), log_q(state.x)};
            }),
            kLimit);
}

// ---- Another test of acceptance, another kind of point -------------------------------------------

// A decision that knows no density: the log ratio of two points is the difference of a network's outputs for (x, x')
// and (x', x), as a discriminator of pairs gives it. Here it is the exact one.
class PairwiseDecision final : public Decision {
 public:
  using Ratio = std::function<Tensor(const Tensor& from, const Tensor& to)>;
  explicit PairwiseDecision(Ratio log_ratio) : log_ratio_(std::move(log_ratio)) {}
  void prepare(State&, bool) const override {}
  Info decide(State& state, const Move& move, RowStreams uniforms) const override {
    const Tensor r = log_ratio_(state.x, move.x);
    Info info;
    info.accepted = accept_mask(uniforms.uniform(r.size(0)).log(), r);
    info.accept_prob = r.clamp_max(0).exp();
    state.x = replaced(info.accepted, move.x, state.x);
    return info;
  }

 private:
  Ratio log_ratio_;
};

// Images of 4x4 pixels, each N(brightness of its row, 1); a candidate shrinks the image and adds noise, q(x' | x) =
// N(a x, s^2). Neither state nor decision has a density; the loop is that of every kernel.
class ToyMarkovProposal final : public Kernel {
 public:
  static constexpr double kShrink = 0.9, kNoise = 0.4;
  explicit ToyMarkovProposal(std::shared_ptr<const Decision> decision) : Kernel(std::move(decision)) {}
  Move propose(const State& state, const ChainStreams& streams) const override {
    const Tensor noise = streams.noise.normal(state.x.size(0), state.x[0].numel()).view(state.x.sizes());
    return {kShrink * state.x + kNoise * noise, {}, {}, {}};
  }
  static Tensor log_ratio(const Tensor& from, const Tensor& to, bool reverse) {
    const Tensor rows = 0.3 * at::arange(4, at::kDouble).view({1, 1, 4, 1});
    auto half = [](const Tensor& x) { return x.square().sum({1, 2, 3}) * -0.5; };
    Tensor r = half(to - rows) - half(from - rows);
    if (reverse) r = r + half((from - kShrink * to) / kNoise) - half((to - kShrink * from) / kNoise);
    return r;
  }
};

double image_departure(bool reverse) {
  constexpr int64_t kImages = 4000;
  Stream random(1, Phase::kTest, 0, Purpose::kExact), noise(1, Phase::kTest, 0, Purpose::kLocal),
      uniforms(1, Phase::kTest, 0, Purpose::kLocalAccept);
  const Tensor rows = 0.3 * at::arange(4, at::kDouble).view({1, 1, 4, 1});
  const ToyMarkovProposal kernel(std::make_shared<PairwiseDecision>(
      [reverse](const Tensor& from, const Tensor& to) { return ToyMarkovProposal::log_ratio(from, to, reverse); }));
  State state = kernel.init(random.normal({kImages, 1, 4, 4}) + rows);
  double moved = 0;
  for (int i = 0; i < 40; ++i) moved += kernel.step(state, {noise, uniforms}).accept_prob.mean().item<double>() / 40;
  EXPECT_GT(moved, 0.02);
  const Tensor z = (state.x - rows).view({-1});  // N(0, 1), 64,000 of them
  return std::max(std::fabs(test::z_score(z, 0)), std::fabs(test::z_score(z.square(), 1)));
}

// False alarms: 1 in 30,000.
TEST(Markov, ImagesUnderAPairwiseRatioKeepTheirLaw) { EXPECT_LT(image_departure(true), kLimit); }
TEST(Markov, ARatioWithoutTheProposalsOwnIsCaught) { EXPECT_GT(image_departure(false), kLimit); }

}  // namespace
}  // namespace hastings
