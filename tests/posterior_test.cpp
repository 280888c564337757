// The three posteriors of the literature, where their data are at hand (HASTINGS_TEST_DATA), against moments and
// evidence computed by other programs (tests/reference/posterior_truth.json).
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "hastings/diagnose/ess.h"
#include "hastings/diagnose/weights.h"
#include "hastings/learn/fit.h"
#include "hastings/sample/sampler.h"
#include "hastings/target/registry.h"
#include "support.h"

namespace hastings {
namespace {

std::string data_file(const std::string& name) {
  const char* root = std::getenv("HASTINGS_TEST_DATA");
  if (!root || !*root) return "";
  const std::string path = std::string(root) + "/uci/" + name;
  return std::filesystem::exists(path) ? path : "";
}

class Posterior : public ::testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(Posterior, MomentsAndEvidence) {
  const auto& [name, file] = GetParam();
  const std::string path = data_file(file);
  if (path.empty()) GTEST_SKIP() << "HASTINGS_TEST_DATA has no uci/" << file;
  std::ifstream reference(HASTINGS_REFERENCE "/posterior_truth.json");
  const auto truth = nlohmann::json::parse(reference)["datasets"][name];
  const auto mean = truth["mean"].get<std::vector<double>>(), sd = truth["sd"].get<std::vector<double>>();
  const auto target = find_target("logistic:" + path);
  ASSERT_EQ(target->dim(), static_cast<int64_t>(mean.size()));
  Observer silent;
  const Fit fitted = fit(*target, {}, silent);
  EXPECT_GT(fitted.learning.acceptance, 0.9);
  SampleOptions options;
  options.draws = 10000;
  MemorySink sink(options.chains, options.draws, target->dim());
  const SampleReport report = sample(*target, *fitted.proposal, options, sink, silent);
  for (int64_t j = 0; j < target->dim(); ++j) {  // about 110 figures in three tests: 4.5 sigma, false alarms below 1e-3
    const Tensor x = sink.draws.select(2, j).contiguous();
    EXPECT_LT(std::fabs(x.mean().item<double>() - mean[static_cast<size_t>(j)]) / mcse_mean(x), 4.5) << j;
    EXPECT_LT(std::fabs(x.std(true).item<double>() - sd[static_cast<size_t>(j)]) / mcse_sd(x), 4.5) << j;
  }
  std::vector<double> weights;
  for (const auto& chain : report.chains)
    weights.insert(weights.end(), chain.log_weights.begin(), chain.log_weights.end());
  const Evidence evidence = log_evidence(weights);
  EXPECT_LT(std::fabs(evidence.log_z - truth["log_z"].get<double>()), 4.5 * evidence.error + 5e-4);
}

INSTANTIATE_TEST_SUITE_P(All, Posterior,
                         ::testing::Values(std::pair("german", "german.data-numeric"), std::pair("heart", "heart.dat"),
                                           std::pair("australian", "australian.dat")),
                         [](const auto& info) { return info.param.first; });

TEST(PosteriorData, LibsvmAndPlainFilesAgree) {
  const std::string plain = data_file("heart.dat"), sparse = data_file("heart_scale.libsvm");
  if (plain.empty() || sparse.empty()) GTEST_SKIP() << "HASTINGS_TEST_DATA has no uci/heart";
  const auto a = find_target("logistic:" + plain), b = find_target("logistic:" + sparse);
  Stream random(1, Phase::kTest, 0, Purpose::kExact);
  const Tensor theta = random.normal({10, 14});
  EXPECT_LT(test::gap(a->log_prob(theta), b->log_prob(theta)), 1e-3);  // the libsvm file is rounded to six digits
}

}  // namespace
}  // namespace hastings
