// The filter on known densities.
#include "hastings/gan/filter/filter.h"

#include <set>

#include "hastings/core/files.h"
#include "hastings/core/registry.h"
#include "support.h"

namespace hastings {
namespace {

// One dimension: p = N(0, 1), q = N(0.5, 1.3^2), everything known.
struct ExactPair {
  static constexpr double kMean = 0.5, kSd = 1.3;
  Tensor proposals, weights;

  ExactPair(int64_t n, uint64_t seed) {
    proposals = Stream(seed, Phase::kTest, 0, Purpose::kProposal).normal({n}) * kSd + kMean;
    weights = log_ratio_at(proposals);
  }
  static Tensor log_ratio_at(const Tensor& x) { return -0.5 * x.square() + 0.5 * ((x - kMean) / kSd).square(); }
};

Filtered run_filter(const Tensor& weights, const std::string& protocol, int64_t k, std::vector<double> real = {},
                    uint64_t seed = 3, int64_t block = 250) {
  FilterOptions options;
  options.protocol = parse_protocol(protocol);
  options.per_output = k;
  options.outputs = weights.size(0) / k;
  Filter filter(options, std::move(real), {seed, Phase::kTest});
  const Tensor w = weights.contiguous();
  for (int64_t at = 0; at < w.size(0); at += block)
    filter.feed({w.data_ptr<double>() + at, static_cast<size_t>(std::min(block, w.size(0) - at))});
  return filter.finish();
}

Tensor chosen_of(const Tensor& proposals, const Filtered& f) {
  return proposals.index_select(0, at::tensor(f.chosen, at::kLong));
}

// Moments of the outputs against the target's; k is large enough for outputs to be nearly independent. False alarms
// about 1 in 3,000 for each z.
TEST(Filter, WithTheExactRatioTheTargetComesOut) {
  const ExactPair exact(600000, 21);
  const Tensor out = chosen_of(exact.proposals, run_filter(exact.weights, "chain", 20));
  EXPECT_LT(std::abs(test::z_score(out, 0)), 3.6);
  EXPECT_LT(std::abs(test::z_score(out.square(), 1)), 3.6);
  EXPECT_LT(std::abs(test::z_score((out > 1).to(at::kDouble), 0.158655)), 3.6);
  std::vector<double> real(20000);
  const Tensor starts = ExactPair::log_ratio_at(Stream(9, Phase::kTest, 0, Purpose::kExact).normal({20000}));
  std::copy_n(starts.data_ptr<double>(), 20000, real.begin());
  const Filtered restarts = run_filter(exact.weights, "restarts", 20, real);
  EXPECT_LT(static_cast<double>(restarts.stuck) / 30000, 0.01);
  const Tensor from_real = chosen_of(exact.proposals, restarts);
  EXPECT_LT(std::abs(test::z_score(from_real, 0)), 4);
  EXPECT_LT(std::abs(test::z_score(from_real.square(), 1)), 4);
  // The controls: the generator itself, and the ratio upside down, are both caught.
  EXPECT_GT(std::abs(test::z_score(chosen_of(exact.proposals, run_filter(exact.weights, "plain", 20)), 0)), 10);
  EXPECT_GT(std::abs(test::z_score(chosen_of(exact.proposals, run_filter(-exact.weights, "chain", 20)), 0)), 10);
  EXPECT_GT(std::abs(test::z_score(chosen_of(exact.proposals, run_filter(exact.weights, "top", 20)).square(), 1)), 10);
}

TEST(Filter, AConstantDiscriminatorChangesNothing) {
  const Tensor flat = at::full({50000}, 1.7, at::kDouble);
  for (const char* protocol : {"chain", "restarts", "generated"}) {
    const Filtered f = run_filter(flat, protocol, 10, {1.7});
    const Filtered plain = run_filter(flat, "plain", 10);
    EXPECT_EQ(f.chosen, plain.chosen) << protocol;  // every proposal accepted: the very same outputs
    EXPECT_EQ(f.acceptance, 1) << protocol;
    EXPECT_EQ(f.unique, 1) << protocol;
  }
}

TEST(Filter, AConstantAddedToTheScoresCancelsAndBlocksDoNotMatter) {
  const ExactPair exact(20000, 4);
  const Filtered a = run_filter(exact.weights, "chain", 10), b = run_filter(exact.weights + 5, "chain", 10);
  EXPECT_EQ(a.chosen, b.chosen);
  const std::vector<double> real = {0.1, 0.2, 0.3};
  // The uniforms of restarts belong to outputs, whatever the blocks.
  EXPECT_EQ(run_filter(exact.weights, "restarts", 10, real, 3, 250).chosen,
            run_filter(exact.weights, "restarts", 10, real, 3, 97).chosen);
}

TEST(Filter, NanAndInfinityNeverWin) {
  Tensor weights = Stream(1, Phase::kTest, 0, Purpose::kData).normal({5000});
  weights.index_put_({at::arange(0, 5000, 7)}, at::tensor(std::nan(""), at::kDouble));
  weights.index_put_({at::arange(1, 5000, 7)}, at::tensor(INFINITY, at::kDouble));
  for (const char* protocol : {"chain", "restarts", "generated", "rejection", "top"}) {
    const Filtered f = run_filter(weights, protocol, 10, {0.0});
    const Tensor won = chosen_of(weights, f);
    EXPECT_TRUE(at::isfinite(won).all().item<bool>()) << protocol;
  }
  EXPECT_THROW(run_filter(at::full({50}, std::nan(""), at::kDouble), "top", 5), NumericalError);
}

TEST(Filter, StuckChainsShow) {
  Tensor weights = Stream(1, Phase::kTest, 0, Purpose::kData).normal({10000});
  weights[100] = 60;  // nothing ever beats it
  const Filtered f = run_filter(weights, "chain", 10);
  EXPECT_LT(f.unique, 0.1);
  EXPECT_GT(f.longest_run, 9000);
}

TEST(Filter, RejectionIsExactWhereItCanBeAndLenientWhereItMust) {
  const ExactPair exact(300000, 8);
  const Filtered f = run_filter(exact.weights, "rejection", 10);  // about 64 % would be accepted
  EXPECT_EQ(f.chosen.size(), 30000u);
  EXPECT_EQ(f.unique, 1);
  const Tensor out = chosen_of(exact.proposals, f);
  EXPECT_LT(std::abs(test::z_score(out, 0)), 3.6);
  EXPECT_LT(std::abs(test::z_score(out.square(), 1)), 3.6);
  Tensor spiked = exact.weights.clone();
  spiked[5] = 30;  // by this one nearly all would be refused
  EXPECT_EQ(run_filter(spiked, "rejection", 10).chosen.size(), 30000u);
}

// A protocol is asked for by its name, and its outputs belong to its number.
TEST(Filter, EveryProtocolIsRegistered) {
  std::set<uint64_t> numbers;
  const std::string page = read_file(HASTINGS_REFERENCE "/../../docs/gan.md");
  const std::vector<double> weights(40, 0.5);
  for (const auto& entry : protocols()) {
    EXPECT_EQ(parse_protocol(entry.name), entry.kind);
    EXPECT_EQ(to_string(entry.kind), entry.name);
    numbers.insert(entry.number);
    EXPECT_NE(page.find(std::string("| `") + entry.name + "` |"), std::string::npos) << entry.name;
    Filter filter({entry.kind, 4, 10}, {0.5}, {1, Phase::kTest});
    filter.feed(weights);
    const Filtered f = filter.finish();
    EXPECT_EQ(f.chosen.size(), 4u) << entry.name;
    EXPECT_EQ(f.proposals, 40) << entry.name;
    EXPECT_TRUE(filter.warnings(f).empty()) << entry.name;
    EXPECT_NE(help_of(protocols()).find(std::string(entry.name) + " (" + entry.help), std::string::npos);
  }
  EXPECT_EQ(numbers, (std::set<uint64_t>{0, 1, 2, 3, 4, 5}));  // stored seeds give the same outputs only with these
  EXPECT_EQ(entry_of(ProtocolKind::kRejection).number, 4u);
  EXPECT_EQ(test::error_of([] { parse_protocol("walk"); }),
            "protocol 'walk': must be plain, chain, restarts, generated, rejection or top");
}

}  // namespace
}  // namespace hastings
