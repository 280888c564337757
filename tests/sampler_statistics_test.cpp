// The sampler as a whole: moments, mode weights and evidence of every target, stationarity of the batch scan, holding
// times; and proposals that lie about their density, which must be caught.
#include <boost/math/distributions/chi_squared.hpp>

#include "hastings/diagnose/ess.h"
#include "hastings/diagnose/weights.h"
#include "hastings/learn/fit.h"
#include "hastings/sample/sampler.h"
#include "hastings/target/registry.h"
#include "hastings/target/zoo.h"
#include "support.h"

namespace hastings {
namespace {

Observer silent;

// A short fit: exactness may not depend on how good the proposal is.
std::unique_ptr<Proposal> short_fit(const Target& target, double defensive = 0.05) {
  FitOptions options;
  options.learn.max_iterations = 150;
  options.learn.seed = options.start.seed = 3;
  options.flow.defensive = defensive;
  return fit(target, options, silent).proposal;
}

struct Errors {
  double moments = 0, regions = 0, evidence = 0;
};

// The largest errors of means, second moments, region weights and log Z, in Monte-Carlo standard errors.
Errors errors_of(const Target& target, const Proposal& proposal, const SampleOptions& options) {
  MemorySink sink(options.chains, options.draws, target.dim());
  const SampleReport report = sample(target, proposal, options, sink, silent);
  const Truth truth = target.truth();
  const Tensor flat = sink.draws.view({-1, target.dim()});
  const Tensor s = target.statistics(flat).view({options.chains, options.draws, -1});
  Errors errors;
  for (int64_t j = 0; j < s.size(2); ++j) {
    const Tensor column = s.select(2, j).contiguous();
    const double mean = truth.mean[j].item<double>(), sd = truth.sd[j].item<double>();
    errors.moments = std::max(errors.moments, std::fabs(column.mean().item<double>() - mean) / mcse_mean(column));
    if (target.name() == "funnel" && j > 0) continue;  // its fourth moment is too heavy for a standard error
    const Tensor square = (column - mean).square();
    errors.moments = std::max(errors.moments, std::fabs(square.mean().item<double>() - sd * sd) / mcse_mean(square));
  }
  if (const auto regions = target.regions()) {
    const Tensor region = target.region_of(flat).view({options.chains, options.draws});
    for (int64_t k = 0; k < regions->weights.size(0); ++k) {
      const Tensor inside = at::eq(region, k).to(at::kDouble);
      errors.regions =
          std::max(errors.regions,
                   std::fabs(inside.mean().item<double>() - regions->weights[k].item<double>()) / mcse_mean(inside));
    }
  }
  if (truth.log_z && options.local_moves != LocalMoves::kMixture) {
    std::vector<double> weights;
    for (const auto& chain : report.chains)
      weights.insert(weights.end(), chain.log_weights.begin(), chain.log_weights.end());
    const Evidence e = log_evidence(weights);
    errors.evidence = std::fabs(e.log_z - *truth.log_z) / std::max(e.error, 1e-7);
  }
  return errors;
}

class SamplerTest : public ::testing::TestWithParam<std::string> {};

// About 150 figures over all targets: |z| < 4.5 has a false-alarm rate of 1e-3 in all.
TEST_P(SamplerTest, MomentsRegionsEvidence) {
  const auto target = find_target(GetParam());
  SampleOptions options;
  options.chains = 8;
  options.draws = 5000;
  options.warmup = 500;
  // The funnel has weights that only a heavier wide component bounds: else one state is held for longer than any
  // standard error knows.
  const double defensive = GetParam() == "funnel" ? 0.3 : 0.05;
  const Errors errors = errors_of(*target, *short_fit(*target, defensive), options);
  EXPECT_LT(errors.moments, 4.5);
  EXPECT_LT(errors.regions, 4.5);
  EXPECT_LT(errors.evidence, 4.5);
}

INSTANTIATE_TEST_SUITE_P(All, SamplerTest,
                         ::testing::Values("ring", "mog2", "mog6", "ring5", "icg", "scg", "rough_well", "mog", "toy",
                                           "gaussian", "funnel", "banana"));

TEST(SamplerLocalMoves, MomentsAreExact) {
  const auto target = make_mog();
  const auto proposal = short_fit(*target);
  for (const std::string local : {"rw", "mala", "hmc", "mixture"}) {
    SampleOptions options;
    options.chains = 4;
    options.draws = 3000;
    parse(local, options.local_moves);
    options.local_fraction = 0.3;
    options.local_step = 0.3;
    const Errors errors = errors_of(*target, *proposal, options);
    EXPECT_LT(errors.moments, 4.5) << local;
    EXPECT_LT(errors.regions, 4.5) << local;
  }
}

// A proposal whose log q is not the one of its draws.
class Lying final : public Proposal {
 public:
  Lying(std::unique_ptr<Proposal> inner, double factor) : inner_(std::move(inner)), factor_(factor) {}
  int64_t dim() const override { return inner_->dim(); }
  int64_t noise_dim() const override { return inner_->noise_dim(); }
  Draws from_noise(const Tensor& noise) const override {
    Draws draws = inner_->from_noise(noise);
    draws.log_q = draws.log_q * factor_;
    return draws;
  }
  Tensor log_prob(const Tensor& x) const override { return inner_->log_prob(x) * factor_; }
  std::map<std::string, Tensor> state() const override { return {}; }
  void load(const std::map<std::string, Tensor>&) override {}

 private:
  std::unique_ptr<Proposal> inner_;
  double factor_;
};

TEST(NegativeControl, ALieAboutLogQIsCaught) {
  const auto target = make_ring();
  SampleOptions options;
  options.chains = 8;
  options.draws = 5000;
  const Errors dropped = errors_of(*target, Lying(short_fit(*target), 0.0), options);
  EXPECT_GT(std::max(dropped.moments, dropped.evidence), 4.5);
  const Errors bent = errors_of(*target, Lying(short_fit(*target), 0.9), options);
  EXPECT_GT(std::max(bent.moments, bent.evidence), 4.5);
}

// The scan from exact starts: one step of many chains, the states at exact draws, candidates from a proposal that does
// not fit. Afterwards the states are still exact. Dropping log q from the weights must show.
TEST(ScanStationarity, ExactStartsStayExact) {
  const auto target = find_target("toy");
  FlowSpec spec;
  spec.family = "gaussian";
  const auto proposal = make_flow_proposal(spec.resolved(1), {test::doubles({0.5}), test::doubles({2.0}).view({1, 1})},
                                           GaussianMixture::standard(1), 1);
  for (const bool broken : {false, true}) {
    Stream random(8, Phase::kTest, 0, Purpose::kExact), noise(8, Phase::kTest, 0, Purpose::kProposal),
        uniforms(8, Phase::kTest, 0, Purpose::kAccept);
    const int64_t n = 40000;
    const Tensor start = target->exact_draws(n, random);
    auto weight = [&](const Tensor& x) {
      return (target->log_prob(x) - (broken ? at::zeros({x.size(0)}, at::kDouble) : proposal->log_prob(x)))
          .contiguous();
    };
    Tensor state = start.clone();
    const Tensor w = weight(start);
    for (int64_t i = 0; i < n; i += 1) {
      // Three candidates for each chain, through the very scan the sampler uses.
      if (i % 4096 == 0) {
        const int64_t rows = std::min<int64_t>(4096, n - i);
        const Draws draws = proposal->sample(rows * 3, noise);
        const Tensor wc = weight(draws.x), u = uniforms.uniform({rows * 3}).log();
        for (int64_t r = 0; r < rows; ++r) {
          ScanState s{w[i + r].item<double>(), 1};
          ScanInfo info;
          int64_t held[3];
          double stat[3];
          scan({wc.data_ptr<double>() + 3 * r, 3}, {u.data_ptr<double>() + 3 * r, 3}, s, info, held, stat);
          if (held[2] >= 0) state[i + r] = draws.x[3 * r + held[2]];
        }
      }
    }
    const Truth truth = target->truth();
    const Tensor x = state.squeeze(1);
    const double mean = std::fabs(test::z_score(x, truth.mean[0].item<double>()));
    const double second = std::fabs(test::z_score(x.square(), truth.sd[0].item<double>() * truth.sd[0].item<double>() +
                                                                  std::pow(truth.mean[0].item<double>(), 2)));
    const double shape =
        std::fabs(test::z_score(at::lt(x, 0).to(at::kDouble), 0.5 * (0.5 * std::erfc(-2 / 0.5 / std::sqrt(2.0)) +
                                                                     0.5 * std::erfc(2 / 0.7 / std::sqrt(2.0)))));
    if (broken) {
      EXPECT_GT(std::max({mean, second, shape}), 4.5);
    } else {
      EXPECT_LT(std::max({mean, second, shape}), 4.5);
    }
  }
}

// At a state with weight w the stay is geometric with success probability a = E_q min(1, w(y)/w): p = N(0,1),
// q = N(0, s^2), state 0: a = 1/s exactly. Chi-squared over the first ten lengths, false-alarm rate 1e-4.
TEST(HoldingTimes, AreGeometric) {
  const double s = 1.8, a = 1 / s;
  Stream noise(12, Phase::kTest, 0, Purpose::kProposal), uniforms(12, Phase::kTest, 0, Purpose::kAccept);
  const int64_t trials = 20000;
  std::vector<double> count(11, 0.0);
  auto weight = [s](const Tensor& y) { return y.square() * (0.5 / (s * s) - 0.5); };
  for (int64_t t = 0; t < trials; ++t) {
    const Tensor w = weight(noise.normal({64}) * s), u = uniforms.uniform({64}).log();
    ScanState state{0.0, 1};  // w(0) = 0
    ScanInfo info;
    int64_t held[64];
    double stat[64];
    scan({w.data_ptr<double>(), 64}, {u.data_ptr<double>(), 64}, state, info, held, stat);
    int64_t stay = 0;
    while (stay < 64 && held[stay] < 0) ++stay;
    count[static_cast<size_t>(std::min<int64_t>(stay, 10))] += 1;
  }
  double chi2 = 0;
  for (int k = 0; k <= 10; ++k) {
    const double expected = static_cast<double>(trials) * (k < 10 ? std::pow(1 - a, k) * a : std::pow(1 - a, 10));
    chi2 += std::pow(count[static_cast<size_t>(k)] - expected, 2) / expected;
  }
  EXPECT_LT(chi2, boost::math::quantile(boost::math::complement(boost::math::chi_squared(10), 1e-4)));
}

}  // namespace
}  // namespace hastings
