#include "hastings/core/error.h"
#include "hastings/explore/climb.h"
#include "hastings/learn/fit.h"
#include "hastings/learn/shape.h"
#include "hastings/sample/sampler.h"
#include "hastings/target/logistic.h"
#include "hastings/target/registry.h"
#include "hastings/target/zoo.h"
#include "support.h"

namespace hastings {
namespace {

Observer silent;

TEST(Climb, FindsTheModes) {
  const auto gaussian = make_icg(20);
  Stream random(1, Phase::kTest, 0, Purpose::kStart);
  EXPECT_LT((climb(*gaussian, random.normal({8, 20})) / gaussian->truth().sd).abs().max().item<double>(), 1e-3);
  const auto mixture = make_mog6();
  const Tensor ends = climb(*mixture, random.normal({16, 2}) * 5);
  EXPECT_LT((ends.norm(2, 1) - 5).abs().max().item<double>(), 1e-3);
}

TEST(Start, LaplaceIsExactForAGaussian) {
  const Start start = find_start(*make_icg(), {}, silent);
  EXPECT_EQ(start.method, "laplace");
  EXPECT_GT(start.acceptance, 0.999);
}

TEST(Start, FindsAllModesOfMog6) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    StartOptions options;
    options.seed = seed;
    const Start start = find_start(*make_mog6(), options, silent);
    EXPECT_EQ(start.modes, 6);
    EXPECT_GT(start.acceptance, 0.98);
    const Tensor share = at::bincount(make_mog6()->region_of(start.population.x), {}, 6).to(at::kDouble) / 4096.0;
    EXPECT_LT((share - 1.0 / 6).abs().max().item<double>(), 0.06);
  }
}

TEST(Start, BadStartsAreNamed) {
  const auto nowhere = make_target("nowhere", 2, [](const Tensor& x) { return x.sum(1) * std::nan(""); });
  EXPECT_THROW(find_start(*nowhere, {}, silent), NumericalError);
  StartOptions options;
  options.method = "guess";
  EXPECT_THROW(find_start(*make_ring(), options, silent), ConfigError);
}

// log p = sum_i a y_i - e^{y_i}, y = R x: skew in every direction, and correlated.
std::unique_ptr<Target> skewed(int64_t d, double a) {
  Stream random(9, Phase::kTest, 0, Purpose::kExact);
  const Tensor mix = random.normal({d, d}) + 2 * at::eye(d, at::kDouble);
  return make_target("skewed", d, [=](const Tensor& x) {
    const Tensor y = at::matmul(x, mix);
    return (a * y - y.exp()).sum(1);
  });
}

TEST(ShapeStart, CarriesSkewnessWithoutLearning) {
  const auto target = skewed(8, 12.0);
  const Start start = find_start(*target, {}, silent);
  ASSERT_EQ(start.method, "laplace");
  FlowSpec spec;
  spec.family = "bend";
  spec = spec.resolved(8);
  const auto flow = make_flow_proposal(spec, start.whitening, start.base, 1);
  const double bent = shape_start(*target, start.whitening, *flow, start.population, 1);
  // What is left of the misfit is of second order: much less than half of it.
  EXPECT_LT(1 - bent, 0.4 * (1 - start.acceptance)) << start.acceptance;
  // A Gaussian has no third derivatives: nothing is bent.
  const auto gaussian = make_icg(6);
  const Start plain = find_start(*gaussian, {}, silent);
  const auto same = make_flow_proposal(spec.resolved(6), plain.whitening, plain.base, 1);
  EXPECT_GT(shape_start(*gaussian, plain.whitening, *same, plain.population, 1), 0.999);
}

TEST(ShapeStart, FindsRingsWithoutLearning) {
  const auto target = make_ring();
  const Start start = find_start(*target, {}, silent);
  FlowSpec spec;
  spec.family = "spline";
  const auto flow = make_flow_proposal(spec.resolved(2), start.whitening, start.base, 1);
  ASSERT_EQ(start.base.components(), 1);
  EXPECT_GT(shape_start(*target, start.whitening, *flow, start.population, 1), std::max(0.8, start.acceptance + 0.2));
}

TEST(Fit, GrowsCouplingsWhereABendIsNotEnough) {
  FitOptions options;
  options.learn.max_iterations = 1500;
  EXPECT_EQ(fit(*make_logistic_simulated(), options, silent).flow.family, "bend");
  const Fit grown = fit(*make_funnel(6), options, silent);
  EXPECT_EQ(grown.flow.family, "coupling");
  for (size_t i = 1; i < grown.learning.history.size(); ++i)
    EXPECT_LE(grown.learning.history[i - 1].seconds, grown.learning.history[i].seconds) << i;
}

// A flow that single precision cannot carry is noticed, one that it can is left alone.
TEST(Fit, TurnsToDoubleWhereRoundingMatters) {
  const auto target = make_gaussian(2);
  FlowSpec spec;
  spec.family = "spline";
  spec = spec.resolved(2);
  const Whitening identity{at::zeros({2}, at::kDouble), at::eye(2, at::kDouble)};
  const auto flow = make_flow_proposal(spec, identity, GaussianMixture::standard(2), 1);
  EXPECT_LT(rounding_error(*target, spec, *flow, 1), 1e-4);
  auto values = flow->parameters();
  Stream random(7, Phase::kTest, 0, Purpose::kExact);
  for (double& v : values) v += 0.3 * random.normal({1}).item<double>();
  flow->set_parameters(values);
  EXPECT_GT(rounding_error(*target, spec, *flow, 1), 0.02);
}

// A density that is finite only on a half plane: candidates beyond it are rejected and counted, learning goes on.
TEST(Learn, SurvivesNonFiniteDensities) {
  const auto half = make_target("half", 2, [](const Tensor& x) {
    const Tensor value = x.square().sum(1) * -0.5;
    return at::where(at::gt(x.select(1, 0), 0), value, at::full_like(value, -std::numeric_limits<double>::infinity()));
  });
  FitOptions options;
  options.learn.max_iterations = 200;
  const Fit fitted = fit(*half, options, silent);
  EXPECT_GT(fitted.learning.non_finite, 0);
  EXPECT_GT(fitted.learning.acceptance, 0.5);
}

TEST(Learn, RaisesTheAcceptanceRate) {
  const auto target = make_banana();
  for (const std::string objective : {"ar", "arlb"}) {
    FitOptions options;
    options.learn.objective = objective;
    options.learn.max_iterations = 400;
    const Fit fitted = fit(*target, options, silent);
    EXPECT_GT(fitted.learning.acceptance, 0.75) << objective;
    EXPECT_GT(fitted.learning.acceptance, fitted.start_acceptance + 0.2) << objective;
    EXPECT_FALSE(fitted.learning.history.empty());
  }
}

TEST(Learn, IsNeverWorseThanItsStart) {
  FitOptions options;
  options.learn.max_iterations = 100;
  options.learn.learning_rate = 1.0;  // hopeless
  options.flow.family = "spline";
  const Fit fitted = fit(*make_gaussian(2), options, silent);
  EXPECT_GT(fitted.learning.acceptance, 0.9);
}

// Half an order when half of the steps are done, and again of what is left; variational inference keeps its rate.
TEST(Learn, TheRateFallsAsTheStepsRunOut) {
  for (const std::string objective : {"ar", "vi"}) {
    FitOptions options;
    options.flow.family = "coupling";
    options.learn.objective = objective;
    options.learn.learning_rate = 1e-6;  // nothing is learned, nothing is lost
    options.learn.window = 10;
    options.learn.patience = 1000;
    options.learn.reductions = 2;
    options.learn.target_acceptance = 1;
    options.learn.max_iterations = 160;
    std::map<int64_t, double>
        falls;  // the step from which on a rate holds, and how many half orders it is below the first
    double rate = 1e-6;
    for (const auto& row : fit(*make_banana(), options, silent).learning.history) {
      if (row.phase == "anneal" || row.learning_rate == rate) continue;
      rate = row.learning_rate;
      falls[row.iteration - 10] = std::round(2 * std::log10(1e-6 / rate));
    }
    const std::map<int64_t, double> wanted = {{80, 1.0}, {120, 2.0}};
    EXPECT_EQ(falls, objective == "vi" ? (std::map<int64_t, double>{}) : wanted) << objective;
  }
}

// At the end of each window the buffer's chains move with the proposal, held still. Variational inference moves them
// nowhere else, so that a buffer that begins far off shows it. Four z-scores below 4: a false alarm in 4,000 tries.
TEST(Learn, TheBufferSettlesAtTheTarget) {
  const auto target = make_gaussian(2);
  FlowSpec spec;
  spec.family = "coupling";
  const Whitening wide{at::full({2}, 0.2, at::kDouble), 2 * at::eye(2, at::kDouble)};
  auto settled = [&](int64_t windows) {
    const auto flow = make_flow_proposal(spec.resolved(2), wide, GaussianMixture::standard(2), 1);
    Population buffer{at::full({4096, 2}, 3.0, at::kDouble), {}};
    buffer.log_prob = target->log_prob(buffer.x);
    LearnOptions options;
    options.objective = "vi";
    options.learning_rate = 1e-12;
    options.batch = 16;
    options.window = 1;
    options.patience = 1000;
    options.target_acceptance = 1;
    options.max_iterations = windows;
    learn(*target, *flow, buffer, options, silent);
    EXPECT_LT(test::gap(buffer.log_prob, target->log_prob(buffer.x)), 1e-9);
    double worst = 0;
    for (int j = 0; j < 2; ++j) {
      const Tensor x = buffer.x.select(1, j);
      worst = std::max({worst, std::fabs(test::z_score(x, 0)), std::fabs(test::z_score(x.square(), 1))});
    }
    return worst;
  };
  EXPECT_LT(settled(60), 4);
  EXPECT_GT(settled(1), 20);  // the control: too few moves are noticed
}

// What the control variate is for: near its target the gradient of ARLB has next to no noise, so that large steps lead
// further. In three seeds 0.976 to 0.978; without it 0.957 to 0.959.
TEST(Learn, ArlbLearnsAPosteriorWithoutNoise) {
  const auto target = skewed(8, 12.0);
  FitOptions options;
  options.flow.family = "realnvp";
  options.flow.hidden = {64};
  options.learn.objective = "arlb";
  options.learn.reductions = 0;
  options.learn.max_iterations = 1000;
  options.learn.batch = 256;
  EXPECT_GT(fit(*target, options, silent).learning.acceptance, 0.968);
}

TEST(Learn, StopsWhenAsked) {
  class Stopper : public Observer {
    bool should_stop() override { return ++asked_ > 20; }
    int asked_ = 0;
  } stopper;
  EXPECT_THROW(fit(*make_ring(), {}, stopper), Interrupted);
  FitOptions options;
  options.learn.max_iterations = 0;
  EXPECT_EQ(fit(*make_ring(), options, silent).learning.iterations, 0);
}

// The same numbers to the last bit with 1, 2 and 3 threads, in learning and in sampling.
class Threads : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Objectives, Threads, testing::Values("ar", "arlb"));
TEST_P(Threads, DoNotMatter) {
  const auto target = make_logistic_simulated();
  std::vector<std::map<std::string, Tensor>> states;
  std::vector<Tensor> draws;
  for (const int threads : {1, 2, 3}) {
    FitOptions options;
    options.learn.objective = GetParam();
    options.learn.max_iterations = 60;
    options.learn.threads = threads;
    options.learn.target_acceptance = 1;
    options.flow.family = "coupling";
    const Fit fitted = fit(*target, options, silent);
    states.push_back(fitted.proposal->state());
    SampleOptions sampling;
    sampling.threads = threads;
    sampling.chains = 3;
    MemorySink sink(3, 1000, target->dim());
    sample(*target, *fitted.proposal, sampling, sink, silent);
    draws.push_back(sink.draws);
  }
  for (size_t i = 1; i < states.size(); ++i) {
    for (const auto& [name, tensor] : states[0]) EXPECT_TRUE(at::equal(tensor, states[i].at(name))) << name;
    EXPECT_TRUE(at::equal(draws[0], draws[i]));
  }
}

TEST(Sampling, ChainsAreFunctionsOfSeedAndNumber) {
  const auto target = make_ring();
  FitOptions options;
  options.learn.max_iterations = 10;
  const Fit fitted = fit(*target, options, silent);
  auto run = [&](int chains, int64_t n, int64_t warmup, int64_t thin, uint64_t seed,
                 const std::string& local = "none") {
    SampleOptions o;
    o.chains = chains;
    o.draws = n;
    o.warmup = warmup;
    o.thin = thin;
    o.seed = seed;
    parse(local, o.local_moves);
    MemorySink sink(chains, n, 2);
    sample(*target, *fitted.proposal, o, sink, silent);
    return sink.draws;
  };
  const Tensor base = run(2, 1200, 0, 1, 1);
  EXPECT_TRUE(at::equal(run(4, 1200, 0, 1, 1).narrow(0, 0, 2), base));       // more chains leave the first as they are
  EXPECT_TRUE(at::equal(run(2, 700, 0, 1, 1), base.narrow(1, 0, 700)));      // fewer draws are a prefix
  EXPECT_TRUE(at::equal(run(2, 700, 500, 1, 1), base.narrow(1, 500, 700)));  // warm-up drops the first
  EXPECT_TRUE(at::equal(run(2, 400, 0, 3, 1), base.slice(1, 2, 1200, 3)));   // thinning keeps every third
  EXPECT_TRUE(at::equal(run(2, 300, 300, 3, 1), base.slice(1, 302, 1200, 3).narrow(1, 0, 300)));
  EXPECT_FALSE(at::equal(run(2, 1200, 0, 1, 2), base));
  for (const std::string local : {"rw", "mala", "hmc", "mixture"}) {
    EXPECT_TRUE(at::equal(run(3, 600, 0, 1, 1, local).narrow(0, 0, 2), run(2, 600, 0, 1, 1, local))) << local;
  }
}

TEST(Sampling, OptionsAreChecked) {
  for (const auto& spoil : std::vector<std::function<void(SampleOptions&)>>{
           [](auto& o) { o.draws = 0; }, [](auto& o) { o.chains = 0; }, [](auto& o) { o.thin = 0; },
           [](auto& o) { o.warmup = -1; }, [](auto& o) { parse("nuts", o.local_moves); },
           [](auto& o) { o.local_fraction = 1.5; }, [](auto& o) { o.threads = -1; }}) {
    SampleOptions o;
    EXPECT_THROW((spoil(o), o.validate()), ConfigError);
  }
}

}  // namespace
}  // namespace hastings
