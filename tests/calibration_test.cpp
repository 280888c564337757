// Simulation-based calibration (Talts et al. 2018) of the logistic posterior: with parameters from the prior and data
// from the parameters, the rank of the true value among posterior draws is uniform. A sampler that drops log q is
// caught.
#include <boost/math/distributions/chi_squared.hpp>

#include "hastings/learn/fit.h"
#include "hastings/sample/sampler.h"
#include "hastings/target/logistic.h"
#include "support.h"

namespace hastings {
namespace {

Observer silent;

class NoLogQ final : public Proposal {
 public:
  explicit NoLogQ(const Proposal& inner) : inner_(inner) {}
  int64_t dim() const override { return inner_.dim(); }
  int64_t noise_dim() const override { return inner_.noise_dim(); }
  Draws from_noise(const Tensor& noise) const override {
    return {inner_.from_noise(noise).x, at::zeros({noise.size(0)}, at::kDouble)};
  }
  Tensor log_prob(const Tensor& x) const override { return at::zeros({x.size(0)}, at::kDouble); }
  std::map<std::string, Tensor> state() const override { return {}; }
  void load(const std::map<std::string, Tensor>&) override {}

 private:
  const Proposal& inner_;
};

TEST(Calibration, RanksOfTheLogisticPosteriorAreUniform) {
  constexpr int64_t kReplicates = 400, kDraws = 99, kBins = 10, kDim = 4;
  Tensor count = at::zeros({kDim, kBins}, at::kDouble), broken = count.clone();
  for (int64_t r = 0; r < kReplicates; ++r) {
    Stream random(1000, Phase::kTest, static_cast<uint64_t>(r), Purpose::kData);
    const Tensor theta = random.normal({kDim});
    LabelledTable table = simulate_logistic(theta, 40, random);
    const auto target = make_logistic("sbc", table);
    FitOptions options;
    options.start.method = "laplace";
    options.start.particles = 256;
    options.flow.family = "gaussian";
    options.learn.max_iterations = 0;
    options.start.seed = static_cast<uint64_t>(r) + 1;
    const Fit fitted = fit(*target, options, silent);
    SampleOptions sampling;
    sampling.chains = 1;
    sampling.draws = kDraws;
    sampling.thin = 10;  // nearly independent draws: ranks are then exactly uniform
    sampling.warmup = 100;
    sampling.seed = static_cast<uint64_t>(r) + 1;
    auto add = [&](const Proposal& proposal, Tensor& to) {
      MemorySink sink(1, kDraws, kDim);
      sample(*target, proposal, sampling, sink, silent);
      const Tensor rank = at::lt(sink.draws[0], theta).sum(0);  // 0 .. 99
      for (int64_t j = 0; j < kDim; ++j) to[j][rank[j].item<int64_t>() * kBins / (kDraws + 1)] += 1;
    };
    add(*fitted.proposal, count);
    add(NoLogQ(*fitted.proposal), broken);
  }
  const double expected = static_cast<double>(kReplicates) / kBins;
  auto chi2 = [&](const Tensor& c) { return ((c - expected).square() / expected).sum(1).max().item<double>(); };
  // Four coordinates at 2.5e-4 each: a false-alarm rate of 1e-3.
  const double limit = boost::math::quantile(boost::math::complement(boost::math::chi_squared(kBins - 1), 2.5e-4));
  EXPECT_LT(chi2(count), limit);
  EXPECT_GT(chi2(broken), limit);
}

}  // namespace
}  // namespace hastings
