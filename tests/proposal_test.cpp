#include <numeric>

#include "hastings/core/error.h"
#include "hastings/proposal/flow_proposal.h"
#include "support.h"

namespace hastings {
namespace {

Whitening some_whitening(int64_t d) {
  Stream random(5, Phase::kTest, 0, Purpose::kExact);
  return {random.normal({d}), (random.normal({d, d}) * 0.3).tril(-1) + at::diag_embed(random.uniform({d}) + 0.5)};
}

GaussianMixture some_mixture(int64_t d) {
  Stream random(6, Phase::kTest, 0, Purpose::kExact);
  const Tensor factors =
      at::stack({at::eye(d, at::kDouble) * 0.5, at::eye(d, at::kDouble) + (random.normal({d, d}) * 0.2).tril(-1)});
  return {test::doubles({0.3, 0.7}).log(), random.normal({2, d}) * 2, factors};
}

std::unique_ptr<FlowProposal> disturbed(FlowSpec spec, int64_t d, bool mixture, double size = 0.15) {
  spec = spec.resolved(d);
  spec.base_components = mixture ? 2 : 1;
  auto proposal =
      make_flow_proposal(spec, some_whitening(d), mixture ? some_mixture(d) : GaussianMixture::standard(d), 1);
  auto values = proposal->parameters();
  Stream random(7, Phase::kTest, 0, Purpose::kExact);
  for (const auto& slot : proposal->slots()) {
    if (!slot.trainable) continue;
    const Tensor z = random.normal({slot.size}) * size;
    for (int64_t i = 0; i < slot.size; ++i) values[static_cast<size_t>(slot.offset + i)] += z[i].item<double>();
  }
  proposal->set_parameters(values);
  return proposal;
}

class FamilyTest : public ::testing::TestWithParam<std::tuple<std::string, int64_t, bool>> {
 protected:
  FlowSpec spec(const std::string& precision) const {
    FlowSpec s;
    s.family = std::get<0>(GetParam());
    s.hidden = {12};
    s.bins = 8;
    s.precision = precision;
    if (s.family == "spline") s.radial_bins = 16;
    return s;
  }
  int64_t dim() const { return std::get<1>(GetParam()); }
  bool mixture() const { return std::get<2>(GetParam()); }
};

// The gap that this share of draws keeps within.
double gap_of(double share, const Tensor& a, const Tensor& b) { return (a - b).abs().quantile(share).item<double>(); }

// In double the inverse gives back a draw's own log q, even of a flow so disturbed that its density has peaks of e^40;
// on such a peak the rounding of a point shows in its density.
TEST_P(FamilyTest, DrawsCarryTheirOwnDensity) {
  const auto proposal = disturbed(spec("double"), dim(), mixture());
  Stream random(1, Phase::kTest, 0, Purpose::kProposal);
  const Draws draws = proposal->sample(200, random);
  const Tensor back = proposal->log_prob(draws.x);
  EXPECT_LT(gap_of(0.5, draws.log_q, back), 1e-9);
  EXPECT_LT(gap_of(0.9, draws.log_q, back), 1e-5);
  EXPECT_LT(test::gap(draws.log_q, back), 1);
}

// In float the draws and their log q are those of the flow in double, up to rounding, however disturbed it is. The
// inverse of such a flow is ill-conditioned; of one as learning makes them it is not.
TEST_P(FamilyTest, SinglePrecisionIsCloseToDouble) {
  const auto rough = disturbed(spec("float"), dim(), mixture()), fine = disturbed(spec("double"), dim(), mixture());
  Stream random(1, Phase::kTest, 0, Purpose::kProposal);
  const Tensor noise = random.normal({200, rough->noise_dim()});
  const Draws a = rough->from_noise(noise), b = fine->from_noise(noise);
  EXPECT_LT(test::gap(a.log_q, b.log_q), 5e-3);
  // Relative beyond one: so disturbed, the paper's couplings carry points to 25,000, where floats are 0.002 apart.
  const Tensor size = 1 + b.x.abs();
  EXPECT_LT(gap_of(0.95, a.x / size, b.x / size), 2e-5);
  EXPECT_LT(test::gap(a.x / size, b.x / size), 2e-3);
  const auto mild = disturbed(spec("float"), dim(), mixture(), 0.03);
  const Draws draws = mild->from_noise(noise);
  EXPECT_LT(test::gap(draws.log_q, mild->log_prob(draws.x)), 2e-3);
}

TEST_P(FamilyTest, DerivativesAgreeWithDifferences) {
  // Little disturbed: differences need a function that is close to linear over their step.
  const auto proposal = disturbed(spec("double"), dim(), mixture(), 0.03);
  Stream random(2, Phase::kTest, 0, Purpose::kProposal);
  const Tensor noise = random.normal({40, proposal->noise_dim()}),
               x = proposal->from_noise(random.normal({40, proposal->noise_dim()})).x;
  const Tensor gx = random.normal({40, dim()}), gq = random.normal({40}), gs = random.normal({40});
  const auto values = proposal->parameters();
  auto scalar = [&](const std::vector<double>& v) {
    proposal->set_parameters(v);
    const Draws draws = proposal->from_noise(noise);
    return ((draws.x * gx).sum() + (draws.log_q * gq).sum() + (proposal->log_prob(x) * gs).sum()).item<double>();
  };
  const auto pass = proposal->make_pass();
  proposal->draw(noise, *pass);
  proposal->score(x, *pass);
  proposal->draw_derivative(gx, gq, *pass);
  proposal->score_derivative(gs, *pass);
  std::vector<double> gradient(values.size(), 0.0);
  pass->add_gradient_to(gradient);
  for (const auto& slot : proposal->slots()) {
    if (!slot.trainable) continue;
    for (int64_t k = 0; k < std::min<int64_t>(6, slot.size); ++k) {
      const auto i = static_cast<size_t>(slot.offset + k * slot.size / std::min<int64_t>(6, slot.size));
      auto above = values, below = values;
      above[i] += 1e-6;
      below[i] -= 1e-6;
      const double expected = (scalar(above) - scalar(below)) / 2e-6;
      EXPECT_NEAR(gradient[i], expected, 2e-4 * (1 + std::fabs(expected))) << slot.name;
    }
  }
}

// The target is the proposal itself. The gradient of the symmetric KL, g = -1/n at candidates and h = 1/n at states, is
// noise around zero there; with the two sums of expectation zero (src/learn/control.h) nothing is left of it.
TEST_P(FamilyTest, ControlledGradientVanishesAtTheTarget) {
  const auto proposal = disturbed(spec("double"), dim(), mixture(), 0.03);
  Stream random(3, Phase::kTest, 0, Purpose::kProposal);
  const Tensor noise = random.normal({40, proposal->noise_dim()}), x = proposal->sample(40, random).x;
  auto slope = [&](const Tensor& at_x) {
    std::vector<Tensor> columns;
    for (int64_t j = 0; j < dim(); ++j) {
      const Tensor step = at::zeros({dim()}, at::kDouble);
      step[j] = 1e-6;
      columns.push_back((proposal->log_prob(at_x + step) - proposal->log_prob(at_x - step)) / 2e-6);
    }
    return at::stack(columns, 1);
  };
  const Tensor g = at::full({40}, -1.0 / 40, at::kDouble), h = -g;
  const auto pass = proposal->make_pass(), control = proposal->make_pass();
  const Tensor candidates = proposal->draw(noise, *pass).x;
  proposal->score(x, *pass);
  proposal->draw_derivative(g.unsqueeze(1) * slope(candidates), -g, *pass);
  proposal->score_derivative(-h, *pass);
  proposal->score(candidates, *control);
  proposal->score_derivative(g, *control);
  proposal->redraw(*pass, *control);
  proposal->draw_derivative(-h.unsqueeze(1) * slope(x), h, *control);
  std::vector<double> gradient(proposal->parameters().size(), 0.0);
  auto largest = [&] {
    double most = 0;
    for (const auto& slot : proposal->slots()) {
      for (int64_t k = 0; k < slot.size && slot.trainable; ++k)
        most = std::max(most, std::fabs(gradient[static_cast<size_t>(slot.offset + k)]));
    }
    return most;
  };
  pass->add_gradient_to(gradient);
  EXPECT_GT(largest(), 0.01);  // the control: left alone it is not zero
  control->add_gradient_to(gradient);
  EXPECT_LT(largest(), 1e-5);
}

// With a Gaussian p, narrower than the proposal: both sums have mean zero over the draws they are meant for; 200 sums
// of 50, 48 z-scores below 4: a false alarm in 300 tries. The control: over states the sum that is meant for candidates
// has another mean. It is the direction of that mean, by other draws, along which all are looked at.
TEST_P(FamilyTest, ControlsHaveMeanZero) {
  const auto proposal = disturbed(spec("double"), dim(), mixture(), 0.03);
  Stream random(4, Phase::kTest, 0, Purpose::kProposal);
  const auto pass = proposal->make_pass(), control = proposal->make_pass();
  const Whitening whitening = some_whitening(dim());
  const Tensor factor = 0.6 * whitening.factor, inverse = at::linalg_inv(factor);
  auto state = [&](const Tensor& z) { return whitening.shift + at::matmul(z, factor.t()); };
  std::vector<double> direction(proposal->parameters().size(), 0.0);
  proposal->score(state(random.normal({2000, dim()})), *pass);
  proposal->score_derivative(at::ones({2000}, at::kDouble), *pass);
  pass->add_gradient_to(direction);
  pass->clear_gradient();
  auto along = [&](Pass& of) {
    std::vector<double> gradient(direction.size(), 0.0);
    of.add_gradient_to(gradient);
    of.clear_gradient();
    return std::inner_product(gradient.begin(), gradient.end(), direction.begin(), 0.0);
  };
  const Tensor one = at::ones({50}, at::kDouble);
  std::vector<double> candidates, states, wrong;
  for (int k = 0; k < 200; ++k) {
    proposal->score(proposal->sample(50, random).x, *control);
    proposal->score_derivative(one, *control);
    candidates.push_back(along(*control));
    const Tensor z = random.normal({50, dim()});
    proposal->score(state(z), *pass);
    proposal->score_derivative(one, *pass);
    wrong.push_back(along(*pass));
    proposal->redraw(*pass, *control);
    // d(log p + log det); log q = log base - log det
    proposal->draw_derivative(-at::matmul(z, inverse), -one, *control);
    states.push_back(along(*control));
  }
  EXPECT_LT(std::fabs(test::z_score(test::doubles(candidates), 0)), 4);
  EXPECT_LT(std::fabs(test::z_score(test::doubles(states), 0)), 4);
  EXPECT_GT(std::fabs(test::z_score(test::doubles(wrong), 0)), 8);
}

TEST_P(FamilyTest, StateRoundTrip) {
  auto s = spec("float").resolved(dim());
  s.base_components = mixture() ? 2 : 1;
  const auto proposal = disturbed(spec("float"), dim(), mixture());
  auto copy = make_blank_proposal(s, dim());
  copy->load(proposal->state());
  Stream a(1, Phase::kTest, 0, Purpose::kProposal), b(1, Phase::kTest, 0, Purpose::kProposal);
  const Draws first = proposal->sample(64, a), second = copy->sample(64, b);
  EXPECT_TRUE(at::equal(first.x, second.x));
  EXPECT_TRUE(at::equal(first.log_q, second.log_q));
  auto broken = proposal->state();
  broken.erase(broken.begin());
  EXPECT_THROW(copy->load(broken), DataError);
}

INSTANTIATE_TEST_SUITE_P(All, FamilyTest,
                         ::testing::Combine(::testing::Values("spline", "bend", "coupling", "realnvp", "gaussian",
                                                              "gaussian-diagonal"),
                                            ::testing::Values(2, 5), ::testing::Bool()),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param) + "_" + std::to_string(std::get<1>(info.param)) +
                                              (std::get<2>(info.param) ? "_mixture" : "");
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Densities integrate to one: by the trapezoid rule on a fine grid.
double integral_2d(const Proposal& q, double reach) {
  const int64_t n = 1501;
  const Tensor axis = at::linspace(-reach, reach, n, at::kDouble);
  const Tensor grid = at::stack(at::meshgrid({axis, axis}, "ij"), -1).view({-1, 2});
  double sum = 0;
  for (int64_t begin = 0; begin < grid.size(0); begin += 100000) {
    sum +=
        q.log_prob(grid.narrow(0, begin, std::min<int64_t>(100000, grid.size(0) - begin))).exp().sum().item<double>();
  }
  const double step = 2 * reach / static_cast<double>(n - 1);
  return sum * step * step;
}

TEST(Proposal, DensitiesIntegrateToOne) {
  FlowSpec spec;
  spec.family = "spline";
  spec.bins = 6;
  spec.radial_bins = 6;
  spec.precision = "double";
  // Disturbed little enough for the grid to resolve the density.
  EXPECT_NEAR(integral_2d(*disturbed(spec, 2, false, 0.03), 14), 1, 2e-3);
  EXPECT_NEAR(integral_2d(*disturbed(spec, 2, true, 0.03), 14), 1, 2e-3);
  spec.family = "bend";
  EXPECT_NEAR(integral_2d(*disturbed(spec, 2, false), 14), 1, 2e-3);
}

TEST(Proposal, DefensiveMixtureIsExact) {
  FlowSpec spec;
  spec.family = "gaussian";
  spec.precision = "double";
  std::unique_ptr<Proposal> inner = disturbed(spec, 1, false);
  const auto q =
      make_defensive(disturbed(spec, 1, false), 0.2, {test::doubles({0.5}), test::doubles({2.0}).view({1, 1})});
  // Density against its two parts, written out: t with 3 degrees of freedom has density 2 / (pi sqrt 3 s (1 +
  // u^2/3)^2).
  const Tensor x = at::linspace(-30, 30, 4001, at::kDouble).unsqueeze(1);
  const Tensor u = (x.squeeze(1) - 0.5) / 2.0;
  const Tensor t = 2.0 / (M_PI * std::sqrt(3.0) * 2.0 * (1 + u.square() / 3).square());
  EXPECT_LT(test::gap(q->log_prob(x).exp(), 0.8 * inner->log_prob(x).exp() + 0.2 * t), 1e-12);
  // Draws carry the mixture's density, and have its distribution: E|x - 0.5| > 5 has the t's mass.
  Stream random(3, Phase::kTest, 0, Purpose::kProposal);
  const Draws draws = q->sample(200000, random);
  EXPECT_LT(test::gap(draws.log_q, q->log_prob(draws.x)), 1e-10);
  const Tensor far = at::gt((draws.x.squeeze(1) - 0.5).abs(), 8.0).to(at::kDouble);
  const double s = 4.0 / std::sqrt(3.0);  // P(|t_3| > 4), Student's closed form
  const double tail = 1 - 2 / M_PI * (s / (1 + s * s) + std::atan(s));
  EXPECT_LT(std::fabs(test::z_score(far, 0.2 * tail)), 4);
}

TEST(GaussianMixture, GradientAndDraws) {
  const GaussianMixture mixture = some_mixture(3);
  Stream random(4, Phase::kTest, 0, Purpose::kProposal);
  const Tensor x = random.normal({50, 3}) * 2, gradient = mixture.gradient(x);
  for (int64_t j = 0; j < 3; ++j) {
    Tensor up = x.clone(), down = x.clone();
    up.select(1, j) += 1e-6;
    down.select(1, j) -= 1e-6;
    EXPECT_LT(test::gap(gradient.select(1, j), (mixture.log_prob(up) - mixture.log_prob(down)) / 2e-6), 1e-6);
  }
  const Tensor draws = mixture.from_noise(random.normal({200000, 4}));
  const Tensor mean = at::matmul(mixture.log_weights.exp(), mixture.means);
  for (int64_t j = 0; j < 3; ++j) EXPECT_LT(std::fabs(test::z_score(draws.select(1, j), mean[j].item<double>())), 4);
}

TEST(FlowSpec, NamesFieldAndValue) {
  FlowSpec spec;
  spec.bins = 1;
  try {
    spec.validate();
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("bins is 1"), std::string::npos);
  }
  spec = {};
  spec.family = "nosuch";
  EXPECT_THROW(spec.validate(), ConfigError);
  spec = {};
  spec.defensive = 1;
  EXPECT_THROW(spec.validate(), ConfigError);
}

}  // namespace
}  // namespace hastings
