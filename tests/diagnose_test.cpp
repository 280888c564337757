// The diagnostics against figures of an independent tool (tests/reference, with how they were made), and against
// theory.
#include <fstream>
#include <nlohmann/json.hpp>

#include "hastings/diagnose/ess.h"
#include "hastings/diagnose/frechet.h"
#include "hastings/diagnose/meeting.h"
#include "hastings/diagnose/summary.h"
#include "hastings/diagnose/weights.h"
#include "hastings/proposal/flow_proposal.h"
#include "hastings/target/zoo.h"
#include "support.h"

namespace hastings {
namespace {

using nlohmann::json;

// The reference's generator: splitmix64, normals as sums of twelve uniforms.
class Generator {
 public:
  explicit Generator(uint64_t seed) : state_(seed) {}
  double uniform() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    x ^= x >> 31;
    return static_cast<double>(x >> 11) * 0x1.0p-53;
  }
  double normal() {
    double a = 0;
    for (int i = 0; i < 12; ++i) a = a + uniform();
    return a - 6.0;
  }

 private:
  uint64_t state_;
};

Tensor reference_draws(const json& c) {
  const int64_t chains = c["chains"], n = c["draws"];
  const std::string kind = c["kind"];
  Generator g(c.value("seed", uint64_t{0}));
  Tensor out = at::empty({chains, n}, at::kDouble);
  for (int64_t m = 0; m < chains; ++m) {
    double* x = out[m].data_ptr<double>();
    double last = 0;
    const int64_t discard = c.value("discard", int64_t{0});
    for (int64_t t = -discard; t < n; ++t) {
      double value = 0;
      if (kind == "iid" || kind == "iid_shifted") {
        value = g.normal();
        if (kind == "iid_shifted" && m == chains - 1) value = value + c["shift"].get<double>();
      } else if (kind == "ar1") {
        const double z = g.normal();
        const double p = c["phi"].get<double>() * last;
        value = p + z;
      } else if (kind == "sticky") {
        const double u = g.uniform(), z = g.normal();
        value = t > 0 && u < c["p_stay"].get<double>() ? last : z;
      } else if (kind == "ratio") {
        const double a = g.normal(), b = g.normal();
        value = a / b;
      } else {
        value = c["value"];
      }
      last = value;
      if (t >= 0) x[t] = value;
    }
  }
  return out;
}

json reference() {
  std::ifstream file(HASTINGS_REFERENCE "/diagnostics_reference.json");
  return json::parse(file);
}

TEST(Diagnose, AgreesWithArviz) {
  int figures = 0;
  const json all = reference();
  for (const auto& c : all["cases"]) {
    const Tensor x = reference_draws(c);
    const auto first = c["first_5_draws_of_first_chain"].get<std::vector<double>>();
    for (size_t i = 0; i < 5; ++i) ASSERT_EQ(x[0][static_cast<int64_t>(i)].item<double>(), first[i]) << c["name"];
    auto check = [&](const char* name, double value, double tolerance = 1e-8) {
      const json& expected = c["expected"][name];
      if (expected.is_null()) return;
      EXPECT_NEAR(value, expected.get<double>(), tolerance * std::fabs(expected.get<double>()))
          << c["name"] << " " << name;
      ++figures;
    };
    check("rhat_rank", rhat(x));
    check("ess_bulk", bulk_ess(x));
    check("ess_tail", tail_ess(x));
    check("ess_mean", mean_ess(x));
    check("ess_sd", sd_ess(x));
    check("ess_quantile_0.05", quantile_ess(x, 0.05));
    check("ess_quantile_0.95", quantile_ess(x, 0.95));
    check("mcse_mean", mcse_mean(x));
    check("mcse_sd", mcse_sd(x));
    check("mcse_quantile_0.05", mcse_quantile(x, 0.05));
    check("mcse_quantile_0.95", mcse_quantile(x, 0.95));
  }
  EXPECT_GT(figures, 80);
}

TEST(Diagnose, ParetoKAgreesWithArviz) {
  const json all = reference();
  for (const auto& c : all["psis_cases"]) {
    Generator g(c["seed"].get<uint64_t>());
    std::vector<double> w;
    for (int64_t i = 0; i < c["n"].get<int64_t>(); ++i) {
      w.push_back(c["kind"] == "lw_normal" ? c["scale"].get<double>() * g.normal()
                                           : -std::log(g.uniform()) * c["scale"].get<double>());
    }
    EXPECT_NEAR(pareto_k(w), c["expected"]["khat"].get<double>(), 1e-6) << c["name"];
  }
}

TEST(Diagnose, UndefinedFiguresAreNaN) {
  EXPECT_TRUE(std::isnan(bulk_ess(at::zeros({4, 3}, at::kDouble))));
  Tensor x = at::zeros({4, 100}, at::kDouble);
  x[0][0] = std::nan("");
  EXPECT_TRUE(std::isnan(bulk_ess(x)));
  EXPECT_TRUE(std::isnan(rhat(x)));
}

// AR(1): rho_s = phi^s, so the truncated sum is known; and independent draws give N, since rho_1 stays below 0.05.
TEST(PaperEss, KnownAutocorrelation) {
  Stream random(1, Phase::kTest, 0, Purpose::kExact);
  const int64_t chains = 400, n = 1000;
  EXPECT_DOUBLE_EQ(paper_ess(random.normal({chains, n}), 0, 1), n);
  const double phi = 0.7;
  Tensor x = random.normal({chains, n});
  x.select(1, 0).div_(std::sqrt(1 - phi * phi));
  for (int64_t t = 1; t < n; ++t) x.select(1, t).add_(x.select(1, t - 1) * phi);
  double sum = 0;
  for (int s = 1; std::pow(phi, s) > 0.05; ++s) sum += (1 - static_cast<double>(s) / n) * std::pow(phi, s);
  EXPECT_NEAR(paper_ess(x, 0, 1 / std::sqrt(1 - phi * phi)), n / (1 + 2 * sum), 0.02 * n / (1 + 2 * sum));
}

// A chain that swings around its mean: an autocorrelation below zero ends the paper's sum at once, so that it sees no
// more than independent draws, though squares are as correlated as ever.
TEST(PaperEss, DoesNotSeeWhatFollowsANegativeAutocorrelation) {
  Stream random(1, Phase::kTest, 0, Purpose::kExact);
  const int64_t chains = 100, n = 1000;
  const double phi = -0.9;
  Tensor x = random.normal({chains, n});
  x.select(1, 0).div_(std::sqrt(1 - phi * phi));
  for (int64_t t = 1; t < n; ++t) x.select(1, t).add_(x.select(1, t - 1) * phi);
  EXPECT_DOUBLE_EQ(paper_ess(x, 0, 1 / std::sqrt(1 - phi * phi)), n);
  EXPECT_LT(bulk_ess(x.square()), 0.3 * static_cast<double>(chains * n));
}

TEST(Weights, EvidenceWithItsError) {
  // log w ~ N(mu, s^2): log E w = mu + s^2 / 2, relative variance of w = e^{s^2} - 1.
  Stream random(2, Phase::kTest, 0, Purpose::kExact);
  const int64_t n = 100000;
  const Tensor w = random.normal({n}) * 0.5 - 3;
  const Evidence e = log_evidence({w.data_ptr<double>(), static_cast<size_t>(n)});
  EXPECT_LT(std::fabs(e.log_z - (-3 + 0.125)), 4 * e.error);
  EXPECT_NEAR(e.error, std::sqrt((std::exp(0.25) - 1) / static_cast<double>(n)), 0.05 * e.error);
  EXPECT_NEAR(e.share, std::exp(-0.25), 0.01);
  // Impossible candidates count: half of them missing costs log 2.
  std::vector<double> half(w.data_ptr<double>(), w.data_ptr<double>() + n);
  half.resize(2 * half.size(), -std::numeric_limits<double>::infinity());
  EXPECT_NEAR(log_evidence(half).log_z, e.log_z - std::log(2), 1e-9);
}

// p = N(0, 1), q = N(m, 1): the symmetric KL is m^2.
TEST(Weights, SymmetricKl) {
  Stream random(3, Phase::kTest, 0, Purpose::kExact);
  const double m = 0.5;
  const Tensor y = random.normal({200000}) + m, w = ((y - m).square() - y.square()) / 2;
  EXPECT_NEAR(symmetric_kl({w.data_ptr<double>(), 200000}), m * m, 0.01);
}

std::unique_ptr<Proposal> gaussian(double mean, double sd) {
  FlowSpec spec;
  spec.family = "gaussian";
  spec.precision = "double";
  return make_flow_proposal(spec.resolved(1), {test::doubles({mean}), test::doubles({sd}).view({1, 1})},
                            GaussianMixture::standard(1), 1);
}

// For q = p every candidate is accepted by both chains: they meet at once. For q = N(0, 1.5^2), p = N(0, 1), one chain
// at x accepts with probability a(x); the pair meets with probability min over the two states, so P(no meeting) is at
// most (1 - inf a)^t, and the bound decreases to zero.
TEST(Meeting, TimesAndBound) {
  const auto target = make_gaussian(1);
  const Meeting same = meeting_times(*target, *gaussian(0, 1), {});
  for (const int64_t t : same.times) EXPECT_EQ(t, 2);
  EXPECT_EQ(same.bound(1), 0);
  MeetingOptions options;
  options.pairs = 2000;
  const Meeting wide = meeting_times(*target, *gaussian(0, 1.5), options);
  EXPECT_EQ(wide.not_met, 0);
  for (int64_t t = 0; t < 30; ++t) EXPECT_GE(wide.bound(t), wide.bound(t + 1));
  // At the worst state, the mode, acceptance is E_q min(1, w(y)/w(0)) with w(y)/w(0) = exp(-y^2 (1 - 1/1.5^2) / 2): a
  // Gaussian integral, 1 / sqrt(1 + 1.5^2 - 1) = 1/1.5 ... so P(tau > t) <= (1/3)^(t-1).
  double late = 0;
  for (const int64_t t : wide.times) late += t > 7;
  EXPECT_LT(late / 2000, std::pow(1.0 / 3, 5) + 4 * std::sqrt(std::pow(1.0 / 3, 5) / 2000));
  // A proposal far too narrow sticks, and that shows.
  const Meeting narrow = meeting_times(*target, *gaussian(0, 0.3), options);
  EXPECT_GT(narrow.steps_for(0.01), 5 * wide.steps_for(0.01));
}

TEST(Verdict, SaysWhatIsWrong) {
  RunSummary s;
  s.chains = 4;
  s.draws = 1000;
  s.acceptance = 0.9;
  s.pareto_k = 0.2;
  s.parameters = {{"x", 0, 0, 1, 1, 0, 0, 0, 3900, 3800, 1.001}};
  judge(s);
  EXPECT_TRUE(s.good) << s.verdict[0];
  auto says = [](const RunSummary& bad, const std::string& word) {
    RunSummary copy = bad;
    judge(copy);
    for (const auto& line : copy.verdict) {
      if (line.find(word) != std::string::npos) return !copy.good;
    }
    return false;
  };
  RunSummary bad = s;
  bad.parameters[0].rhat = 1.2;
  EXPECT_TRUE(says(bad, "R-hat"));
  bad = s;
  bad.parameters[0].ess_bulk = 50;
  EXPECT_TRUE(says(bad, "ESS"));
  bad = s;
  bad.pareto_k = 0.9;
  EXPECT_TRUE(says(bad, "Pareto"));
  // With local moves the draws do not rest on the weights, the evidence does.
  RunSummary local = bad;
  local.local_moves = "hmc";
  local.local_share = 0.5;
  judge(local);
  EXPECT_TRUE(local.good);
  EXPECT_NE(local.verdict.back().find("evidence"), std::string::npos);
  bad = s;
  bad.longest_run = 400;
  EXPECT_TRUE(says(bad, "stayed"));
  bad = s;
  bad.learned_acceptance = 0.5;
  EXPECT_TRUE(says(bad, "never reach"));
  bad = s;
  bad.pairs_not_met = 3;
  EXPECT_TRUE(says(bad, "meet"));
  bad = s;
  bad.acceptance = 0.01;
  EXPECT_TRUE(says(bad, "accepted"));
}

TEST(Frechet, AgreesWithTheClosedForm) {
  const Tensor x = Stream(1, Phase::kTest, 0, Purpose::kData).normal({5000, 3});
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

}  // namespace
}  // namespace hastings
