// Draws that must not change by a bit: of every kernel, of learning, of a GAN's life, against
// tests/reference/golden.txt. Matrix products are pinned to kernels that every CPU with AVX2 has. After a change that
// is meant to change draws: HASTINGS_WRITE_GOLDEN=1 golden_tests writes the file anew.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "hastings/baseline/learned_kernels.h"
#include "hastings/baseline/rejection.h"
#include "hastings/diagnose/meeting.h"
#include "hastings/gan/calibrate/choose.h"
#include "hastings/gan/filter/sample.h"
#include "hastings/gan/network/classifier.h"
#include "hastings/gan/network/preset.h"
#include "hastings/gan/train/train.h"
#include "hastings/learn/fit.h"
#include "hastings/sample/sampler.h"
#include "hastings/target/registry.h"
#include "hastings/target/zoo.h"
#include "support.h"

namespace hastings {
namespace {

const std::string kFile = std::string(HASTINGS_REFERENCE) + "/golden.txt";
std::map<std::string, std::string> written;

std::string hexed(const Tensor& values) {
  const Tensor flat = values.detach().to(at::kDouble).flatten().contiguous();
  std::string text;
  for (int64_t i = 0; i < flat.numel(); ++i) text += fmt::format(" {:a}", flat.data_ptr<double>()[i]);
  return text;
}

void expect_golden(const std::string& name, const Tensor& values) {
  if (std::getenv("HASTINGS_WRITE_GOLDEN")) {
    written[name] = hexed(values);
    return;
  }
  std::ifstream file(kFile);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name + ":")) continue;
    EXPECT_EQ(line.substr(name.size() + 1), hexed(values)) << name;
    return;
  }
  ADD_FAILURE() << name << " is not in " << kFile;
}

// The last draws of each chain.
Tensor sampled(const Target& target, const Proposal& proposal, SampleOptions options) {
  Observer silent;
  MemorySink sink(options.chains, options.draws, target.dim());
  sample(target, proposal, options, sink, silent);
  return sink.draws.slice(1, options.draws - 3);
}

struct LearnCase {
  const char* target;
  const char* objective;
  const char* family;
  int64_t iterations;
};

TEST(Golden, LearnedProposals) {
  const LearnCase cases[] = {{"mog6", "ar", "auto", 120},       {"mog2", "vi", "spline", 60},
                             {"funnel:6", "arlb", "auto", 120}, {"logistic:simulated", "ar", "auto", 120},
                             {"icg:20", "ar", "auto", 60},      {"ring5", "ar", "realnvp", 40}};
  for (const auto& c : cases) {
    const auto target = find_target(c.target);
    FitOptions options;
    options.flow.family = c.family;
    options.learn.objective = c.objective;
    options.learn.max_iterations = c.iterations;
    options.learn.max_seconds = 0;
    options.learn.target_acceptance = 1;
    if (std::string(c.family) == "realnvp") options.flow.hidden = {16};
    Observer silent;
    const Fit fitted = fit(*target, options, silent);
    SampleOptions how;
    how.chains = 2;
    how.draws = 600;
    const std::string name = fmt::format("fit {} {} {}", c.target, c.objective, c.family);
    expect_golden(name, sampled(*target, *fitted.proposal, how));
    expect_golden(name + " acceptance", test::doubles({fitted.learning.acceptance}));
  }
}

TEST(Golden, LocalMoves) {
  const auto target = make_banana();
  FitOptions options;
  options.flow.defensive = 0.1;
  options.learn.max_iterations = 30;
  options.learn.max_seconds = 0;
  Observer silent;
  const Fit fitted = fit(*target, options, silent);
  for (const char* moves : {"none", "rw", "mala", "hmc", "mixture"}) {
    SampleOptions how;
    how.chains = 2;
    how.draws = 600;
    how.thin = 2;
    parse(moves, how.local_moves);
    expect_golden(fmt::format("local {}", moves), sampled(*target, *fitted.proposal, how));
  }
  MeetingOptions meeting;
  std::vector<double> times;
  for (const int64_t t : meeting_times(*target, *fitted.proposal, meeting).times)
    times.push_back(static_cast<double>(t));
  expect_golden("meeting", test::doubles({times.front(), times.back(), test::doubles(times).sum().item<double>()}));
}

TEST(Golden, Baselines) {
  const auto target = make_mog();
  Observer silent;
  HmcOptions hmc;
  hmc.warmup = 40;
  expect_golden("hmc", tune_hmc(*target, hmc, silent).states.narrow(0, 0, 3));
  auto after_steps = [&](const Kernel& kernel) {
    const at::NoGradGuard no_grad;
    Stream noise(1, Phase::kTest, 0, Purpose::kLocal), uniforms(1, Phase::kTest, 0, Purpose::kLocalAccept);
    State state = kernel.init(noise.normal({3, 2}));
    for (int t = 0; t < 20; ++t) kernel.step(state, {noise, uniforms});
    return state.x;
  };
  L2hmcOptions l2hmc;
  l2hmc.iterations = 20;
  expect_golden("l2hmc", after_steps(*learn_l2hmc(*target, l2hmc, silent)));
  AniceOptions anice;
  anice.hidden = {{20}, {20}, {20}};
  anice.critic = {20};
  anice.iterations = 20;
  anice.bootstrap_steps = 60;
  anice.bootstrap_burn_in = 20;
  expect_golden("a-nice-mc", after_steps(*learn_anice(*target, anice, silent)));
  VariationalMcmcOptions vi;
  vi.learn.max_iterations = 20;
  expect_golden("variational-mcmc", after_steps(*learn_variational_mcmc(*target, vi, silent)));
}

TEST(Golden, AGansLife) {
  Stream random(1, Phase::kTest, 0, Purpose::kData);
  const Tensor pixels =
      ((random.normal({700, 1, 8, 8}) * 20 + random.normal({700, 1, 1, 1}) * 30 + 120)).clamp(0, 255).to(at::kByte);
  Observer silent;
  Pair pair = fresh_pair(preset_pair("mlp", {1, 8, 8}, 16, 4), 1);
  for (const char* loss : {"wgan-gp", "ar", "arlb", "dcgan"}) {
    Pair own = fresh_pair(preset_pair("mlp", {1, 8, 8}, 16, 4), 1);
    GanTrainOptions options;
    options.loss = parse_loss(loss);
    options.batch = 32;
    options.iterations = 40;
    GanTrainer trainer(own, pixels, options);
    while (trainer.iteration() < trainer.iterations()) trainer.step();
    expect_golden(fmt::format("gan {}", loss), own.generator->parameters()[0].flatten().narrow(0, 0, 4));
    pair = std::move(own);
  }
  ClassifierOptions classifier;
  classifier.steps = 10;
  classifier.members = 2;
  const Tensor labels = at::arange(700, at::kLong).remainder(3);
  const FeatureNetwork witness = learn_classifiers(pixels, labels, classifier, silent);
  expect_golden("classifier", witness(pixels.narrow(0, 0, 2), 1).flatten().narrow(0, 0, 4));
  CalibrateOptions calibration;
  calibration.per_output = 0;
  const ChosenCalibration chosen = choose_calibration(pair, pixels, calibration, silent);
  expect_golden("calibration", test::doubles({chosen.expected.distance, chosen.expected.log_loss,
                                              static_cast<double>(chosen.advised_per_output)}));
  std::vector<FilterOptions> protocols;
  for (const char* protocol : {"plain", "chain", "restarts", "generated", "rejection", "top"})
    protocols.push_back({parse_protocol(protocol), 40, 10});
  const Proposals proposals(pair, 1, Phase::kGanSample, 1);
  const auto samples = filter_proposals(proposals, chosen, protocols, {1, Phase::kGanFilter}, silent);
  for (size_t i = 0; i < protocols.size(); ++i)
    expect_golden("filter " + to_string(protocols[i].protocol), at::tensor(samples[i].filtered.chosen, at::kLong));
  expect_golden("render", proposals.render({3, 777}).to(at::kDouble).flatten().narrow(0, 60, 8));
}

}  // namespace
}  // namespace hastings

int main(int argc, char** argv) {
  // Read as the libraries are loaded: set before the program begins anew.
  if (!std::getenv("OPENBLAS_CORETYPE")) {
    setenv("OPENBLAS_CORETYPE", "Haswell", 1);
    setenv("ATEN_CPU_CAPABILITY", "avx2", 1);
    setenv("DNNL_MAX_CPU_ISA", "AVX2", 1);
    execv("/proc/self/exe", argv);
  }
  testing::InitGoogleTest(&argc, argv);
  if (!__builtin_cpu_supports("avx2")) {
    fmt::print("SKIPPED: the golden draws are those of a CPU with AVX2.\n");
    return 77;
  }
  const int code = RUN_ALL_TESTS();
  if (std::getenv("HASTINGS_WRITE_GOLDEN")) {
    std::ofstream file(hastings::kFile);
    for (const auto& [name, values] : hastings::written) file << name << ":" << values << "\n";
  }
  return code;
}
