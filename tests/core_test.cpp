#include <ATen/core/PhiloxRNGEngine.h>

#include "hastings/core/accept.h"
#include "hastings/core/error.h"
#include "hastings/core/parallel.h"
#include "support.h"

namespace hastings {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

// ATen's engine is an independent implementation of Philox 4x32-10; its counter is (offset, 0, subsequence).
TEST(Random, IsPhilox) {
  for (const uint64_t seed : {uint64_t{1}, uint64_t{0x123456789abcdef}}) {
    Stream stream(seed, Phase::kTest, 7, Purpose::kAccept);
    const Tensor u = stream.uniform({300});
    for (int64_t block = 0; block < 150; ++block) {
      // subsequence = counter words 2 and 3 = (index, phase and purpose)
      at::philox_engine engine(
          seed, (static_cast<uint64_t>(Phase::kTest) << 48 | static_cast<uint64_t>(Purpose::kAccept) << 32) | 7,
          static_cast<uint64_t>(block));
      uint32_t word[4];
      for (auto& w : word) w = engine();
      for (int half = 0; half < 2; ++half) {
        const uint64_t bits = (static_cast<uint64_t>(word[2 * half]) << 32 | word[2 * half + 1]) >> 11;
        EXPECT_EQ(u[2 * block + half].item<double>(), (static_cast<double>(bits) + 0.5) * 0x1.0p-53);
      }
    }
  }
}

TEST(Random, IsAFunctionOfSeedChainPurposePosition) {
  Stream a(1, Phase::kTest, 2, Purpose::kProposal), b(1, Phase::kTest, 2, Purpose::kProposal);
  EXPECT_TRUE(at::equal(a.normal({64, 3}), b.normal({64, 3})));
  EXPECT_FALSE(at::equal(Stream(1, Phase::kTest, 3, Purpose::kProposal).normal({8}),
                         Stream(1, Phase::kTest, 2, Purpose::kProposal).normal({8})));
  EXPECT_FALSE(at::equal(Stream(2, Phase::kTest, 2, Purpose::kProposal).normal({8}),
                         Stream(1, Phase::kTest, 2, Purpose::kProposal).normal({8})));
  EXPECT_FALSE(at::equal(Stream(1, Phase::kTest, 2, Purpose::kAccept).normal({8}),
                         Stream(1, Phase::kTest, 2, Purpose::kProposal).normal({8})));
  const uint64_t position = a.position();
  const Tensor next = a.normal({10});
  Stream c(1, Phase::kTest, 2, Purpose::kProposal);
  c.seek(position);
  EXPECT_TRUE(at::equal(c.normal({10}), next));
  // Pieces of even length are the whole.
  Stream whole(5, Phase::kTest, 0, Purpose::kStart), pieces(5, Phase::kTest, 0, Purpose::kStart);
  const Tensor all = whole.normal({512});
  EXPECT_TRUE(at::equal(all, at::cat({pieces.normal({128}), pieces.normal({384})})));
}

TEST(Random, HasTheRightDistributions) {
  Stream stream(11, Phase::kTest, 0, Purpose::kExact);
  const int64_t n = 200000;
  const Tensor u = std::get<0>(stream.uniform({n}).sort()), z = stream.normal({n});
  EXPECT_GT(u[0].item<double>(), 0.0);
  EXPECT_LT(u[n - 1].item<double>(), 1.0);
  const Tensor grid = (at::arange(n, at::kDouble) + 0.5) / static_cast<double>(n);
  // Kolmogorov–Smirnov at a false-alarm rate of 1e-4: sqrt(n) D < 2.23.
  EXPECT_LT(std::sqrt(static_cast<double>(n)) * test::gap(u, grid), 2.23);
  const Tensor p = std::get<0>((0.5 * at::erfc(z * -std::sqrt(0.5))).sort());
  EXPECT_LT(std::sqrt(static_cast<double>(n)) * test::gap(p, grid), 2.23);
  EXPECT_LT(std::fabs(test::z_score(z.pow(4), 3.0)), 4);
  EXPECT_LT(std::fabs(test::z_score(z.narrow(0, 1, n - 1) * z.narrow(0, 0, n - 1), 0.0)), 4);
}

TEST(AcceptRule, NaNNeverAccepts) {
  EXPECT_FALSE(accept(std::log(1e-300), kNaN));
  EXPECT_FALSE(accept(kNaN, 1.0));
  EXPECT_FALSE(accept(std::log(0.5), log_ratio(kNaN, 0.0)));
  EXPECT_FALSE(accept(std::log(0.5), log_ratio(-kInf, 0.0)));
  EXPECT_FALSE(accept(std::log(0.5), log_ratio(kInf, 0.0)));  // a trap nothing could leave
  EXPECT_FALSE(accept(std::log(0.5), log_ratio(-kInf, -kInf)));
  EXPECT_TRUE(accept(std::log(0.5), log_ratio(0.0, -kInf)));  // anything finite beats the impossible
  EXPECT_TRUE(accept(std::log(0.5), std::log(0.51)));
  EXPECT_FALSE(accept(std::log(0.5), std::log(0.49)));
  const Tensor r = log_ratio(test::doubles({kNaN, kInf, -kInf, 1.0}), test::doubles({0, 0, 0, 0}));
  EXPECT_TRUE(at::equal(accept_mask(test::doubles({-1, -1, -1, -1}), r), at::tensor({0, 0, 0, 1}).to(at::kBool)));
}

// The scan against the rule applied one candidate at a time.
TEST(Scan, IsTheRuleStepByStep) {
  Stream stream(3, Phase::kTest, 0, Purpose::kExact);
  Tensor w = stream.normal({1000}) * 2;
  w[17] = kNaN;
  w[400] = -kInf;
  w[401] = kInf;
  const Tensor u = stream.uniform({1000}).log();
  ScanState state{0.3, 5};
  ScanInfo info;
  std::vector<int64_t> held(1000);
  std::vector<double> stat(1000);
  scan({w.data_ptr<double>(), 1000}, {u.data_ptr<double>(), 1000}, state, info, held, stat);
  double now = 0.3;
  int64_t at = -1, accepted = 0, run = 5, longest = 5;
  for (int64_t i = 0; i < 1000; ++i) {
    const double candidate = w[i].item<double>();
    const double ratio = std::isfinite(candidate) ? std::min(1.0, std::exp(candidate - now)) : 0.0;
    EXPECT_NEAR(stat[static_cast<size_t>(i)], ratio, 1e-12);
    if (std::isfinite(candidate) && u[i].item<double>() < candidate - now) {
      now = candidate;
      at = i;
      ++accepted;
      run = 1;
    } else {
      ++run;
    }
    longest = std::max(longest, run);
    ASSERT_EQ(held[static_cast<size_t>(i)], at);
  }
  EXPECT_EQ(info.accepted, accepted);
  EXPECT_EQ(info.non_finite, 3);
  EXPECT_EQ(info.longest_run, longest);
  EXPECT_EQ(state.log_weight, now);
}

TEST(Scan, GoesOnFromBlockToBlock) {
  Stream stream(4, Phase::kTest, 0, Purpose::kExact);
  const Tensor w = stream.normal({600}), u = stream.uniform({600}).log();
  auto run = [&](std::vector<size_t> cuts) {
    ScanState state{0, 1};
    ScanInfo info;
    size_t begin = 0;
    for (const size_t end : cuts) {
      std::vector<int64_t> held(end - begin);
      std::vector<double> stat(end - begin);
      scan({w.data_ptr<double>() + begin, end - begin}, {u.data_ptr<double>() + begin, end - begin}, state, info, held,
           stat);
      begin = end;
    }
    return std::tuple(state.log_weight, state.run, info.accepted, info.longest_run);
  };
  EXPECT_EQ(run({600}), run({1, 100, 350, 600}));
}

TEST(Parallel, RunsEveryTaskOnceAndPassesErrorsOn) {
  for (const int threads : {1, 2, 4}) {
    std::vector<std::atomic<int>> count(100);
    parallel_tasks(100, threads, [&](int64_t i) { ++count[static_cast<size_t>(i)]; });
    for (const auto& c : count) EXPECT_EQ(c, 1);
    EXPECT_THROW(parallel_tasks(100, threads,
                                [](int64_t i) {
                                  if (i == 50) throw DataError("x");
                                }),
                 DataError);
  }
}

TEST(Errors, HaveExitCodes) {
  EXPECT_EQ(ConfigError("").exit_code(), 2);
  EXPECT_EQ(DataError("").exit_code(), 3);
  EXPECT_EQ(NumericalError("").exit_code(), 4);
  EXPECT_EQ(Interrupted("").exit_code(), 130);
}

}  // namespace
}  // namespace hastings
