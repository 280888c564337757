// AR, ARLB and VI: against brute force, closed forms and the identities of the paper.
#include "hastings/core/objectives.h"

#include <boost/math/special_functions/beta.hpp>

#include "hastings/core/error.h"
#include "support.h"

namespace hastings {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Weights {
  Tensor candidate, state;
};

// p = N(0, I), q = N(m, I) in d dimensions, exact draws of both: w = log p - log q = |x - m|^2/2 - |x|^2/2.
Weights shifted_gaussian(double m, int64_t n, uint64_t seed) {
  Stream random(seed, Phase::kTest, 0, Purpose::kExact);
  const Tensor x = random.normal({n}), y = random.normal({n}) + m;
  auto w = [m](const Tensor& t) { return (t - m).square() / 2 - t.square() / 2; };
  return {w(y), w(x)};
}

TEST(Objectives, PairsBySortingAreAllPairs) {
  Stream random(1, Phase::kTest, 0, Purpose::kExact);
  const Tensor c = random.normal({57}) * 3, s = random.normal({83}) * 3 + 1;
  const ObjectiveValue value = evaluate(Objective::kAr, c, s);
  const Tensor r = c.unsqueeze(0) - s.unsqueeze(1);  // [state, candidate]
  const Tensor a = r.clamp_max(0).exp();
  EXPECT_NEAR(value.loss, -a.mean().item<double>(), 1e-13);
  const Tensor slope = at::where(at::lt(r, 0), a, at::zeros_like(a)) / static_cast<double>(57 * 83);
  EXPECT_LT(test::gap(value.grad_candidate, -slope.sum(0)), 1e-14);
  EXPECT_LT(test::gap(value.grad_state, slope.sum(1)), 1e-14);
}

TEST(Objectives, GradientsAgreeWithDifferences) {
  Stream random(2, Phase::kTest, 0, Purpose::kExact);
  const Tensor c = random.normal({20}), s = random.normal({20});
  for (const Objective o : {Objective::kAr, Objective::kArlb, Objective::kVi}) {
    const ObjectiveValue value = evaluate(o, c, s);
    for (int64_t i = 0; i < 20; ++i) {
      for (const bool state : {false, true}) {
        Tensor up = (state ? s : c).clone(), down = up.clone();
        up[i] += 1e-6;
        down[i] -= 1e-6;
        const double above = evaluate(o, state ? c : up, state ? up : s).loss,
                     below = evaluate(o, state ? c : down, state ? down : s).loss;
        EXPECT_NEAR((state ? value.grad_state : value.grad_candidate)[i].item<double>(), (above - below) / 2e-6, 1e-7)
            << to_string(o);
      }
    }
  }
}

// AR = erfc(|m|/2), symmetric KL = m^2, and the bound 1 - m/sqrt 2. Matching pairs give independent terms, hence an
// honest standard error; all pairs must agree with them.
TEST(Objectives, ShiftedGaussianClosedForms) {
  const int64_t n = 200000;
  for (const double m : {0.3, 1.0, 2.0}) {
    const Weights w = shifted_gaussian(m, n, 3);
    const Tensor r = w.candidate - w.state;
    EXPECT_LT(std::fabs(test::z_score(r.clamp_max(0).exp(), std::erfc(m / 2))), 4) << m;
    EXPECT_LT(std::fabs(test::z_score(-r, m * m)), 4);
    const ObjectiveValue value = evaluate(Objective::kAr, w.candidate.narrow(0, 0, 20000), w.state.narrow(0, 0, 20000));
    EXPECT_NEAR(value.acceptance, std::erfc(m / 2), 0.01);
    EXPECT_NEAR(value.symmetric_kl, m * m, 0.03 * (1 + m));
    EXPECT_GE(std::erfc(m / 2), acceptance_lower_bound(m * m));
    // Theorem 1: E min(1, xi) = 1 - E|xi - 1| / 2; the difference has mean zero exactly because E xi = 1.
    const Tensor xi = r.exp();
    if (m <= 1) EXPECT_LT(std::fabs(test::z_score(xi.clamp_max(1) - (1 - (xi - 1).abs() / 2), 0)), 4);
  }
  EXPECT_NEAR(std::erfc(0.5), 0.4795, 1e-4);
}

// d ARLB / d m = 2 m and d AR / d m = -exp(-m^2/4)/sqrt(pi), by the chain rule through reparameterised draws.
TEST(Objectives, GradientsOfTheShiftAreThoseOfTheClosedForms) {
  const double m = 1.0;
  const int64_t n = 40000;
  Stream random(4, Phase::kTest, 0, Purpose::kExact);
  const Tensor x = random.normal({n}), z = random.normal({n});
  // w(t) = (t - m)^2/2 - t^2/2 with candidate t = z + m: dw/dm total = 0*... candidate: w = z^2/2 - (z+m)^2/2, dw/dm =
  // -(z + m); state: dw/dm = -(x - m).
  const Tensor candidate = z.square() / 2 - (z + m).square() / 2, state = (x - m).square() / 2 - x.square() / 2;
  auto slope = [&](Objective o) {
    const ObjectiveValue value = evaluate(o, candidate, state);
    return ((value.grad_candidate * -(z + m)).sum() + (value.grad_state * -(x - m)).sum()).item<double>();
  };
  EXPECT_NEAR(slope(Objective::kArlb), 2 * m, 4 * 2.0 / std::sqrt(static_cast<double>(n)));
  EXPECT_NEAR(slope(Objective::kAr), std::exp(-m * m / 4) / std::sqrt(M_PI),
              4 * 1.0 / std::sqrt(static_cast<double>(n)));
}

// p = N(0, I_d), q = N(0, s^2 I_d), s > 1: AR = 2 I_{1/(1+s^2)}(d/2, d/2).
TEST(Objectives, WideGaussianIncompleteBeta) {
  const int64_t n = 100000;
  for (const auto& [d, s] : {std::pair(1, 1.5), std::pair(2, 1.1), std::pair(50, 1.1)}) {
    Stream random(5, Phase::kTest, static_cast<uint64_t>(d), Purpose::kExact);
    const Tensor x = random.normal({n, d}), y = random.normal({n, d}) * s;
    auto w = [s = s, d = d](const Tensor& t) { return t.square().sum(1) * (0.5 / (s * s) - 0.5) + d * std::log(s); };
    const double exact = 2 * boost::math::ibeta(d / 2.0, d / 2.0, 1 / (1 + s * s));
    EXPECT_LT(std::fabs(test::z_score((w(y) - w(x)).clamp_max(0).exp(), exact)), 4) << d;
  }
  EXPECT_NEAR(2 * boost::math::ibeta(0.5, 0.5, 1 / (1 + 2.25)), 4 / M_PI * std::atan(1 / 1.5), 1e-12);
}

// The paper's counter-example to the triangle inequality, D = E|xi - 1| = 2 (1 - AR), and its weaker inequality.
TEST(Objectives, SemimetricOfUniforms) {
  struct Uniform {
    double from, to;
    double density(double x) const { return x >= from && x <= to ? 1 / (to - from) : 0; }
  };
  auto distance = [](const Uniform& p, const Uniform& q) {
    const int n = 600;
    double sum = 0;
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        const double x = (i + 0.5) / n, y = (j + 0.5) / n;
        sum += std::fabs(p.density(x) * q.density(y) - p.density(y) * q.density(x));
      }
    }
    return sum / (n * n);
  };
  const Uniform p{0, 2.0 / 3}, q{1.0 / 3, 1}, s{0, 1};
  EXPECT_NEAR(distance(p, s) + distance(q, s), 4.0 / 3, 1e-9);
  EXPECT_NEAR(distance(p, q), 3.0 / 2, 1e-9);
  EXPECT_GE(distance(p, s) + distance(q, s), 2.0 / 3 * distance(p, q));
}

TEST(Objectives, NonFiniteWeights) {
  const Tensor c = test::doubles({0.0, std::nan(""), -kInf, 1.0}), s = test::doubles({0.5, -kInf, 0.0, 0.2});
  for (const Objective o : {Objective::kAr, Objective::kArlb, Objective::kVi}) {
    const ObjectiveValue value = evaluate(o, c, s);
    EXPECT_EQ(value.non_finite, 3);
    EXPECT_TRUE(std::isfinite(value.loss));
    EXPECT_TRUE(at::isfinite(value.grad_candidate).all().item<bool>());
    EXPECT_EQ(value.grad_candidate[1].item<double>(), 0);
    EXPECT_EQ(value.grad_state[1].item<double>(), 0);
  }
  // Two of four candidates are never accepted.
  const double expected = (std::exp(-0.5) + 1 + std::exp(-0.2) + 3) / 12;
  EXPECT_NEAR(evaluate(Objective::kAr, c, s).acceptance, expected, 1e-12);
  EXPECT_TRUE(std::isnan(evaluate(Objective::kAr, test::doubles({kInf}), s).loss));
}

TEST(Objectives, NamesAreChecked) {
  EXPECT_EQ(parse_objective("arlb"), Objective::kArlb);
  EXPECT_THROW(parse_objective("elbo"), ConfigError);
}

}  // namespace
}  // namespace hastings
