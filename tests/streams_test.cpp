// No two uses share randomness: a fit, a run, a GAN's life and cells of Table 1 are walked through with a ledger of
// every block that any stream draws.
#include <gtest/gtest-spi.h>

#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "hastings/baseline/learned_kernels.h"
#include "hastings/core/files.h"
#include "hastings/gan/calibrate/choose.h"
#include "hastings/gan/filter/sample.h"
#include "hastings/gan/network/classifier.h"
#include "hastings/run/gan_compare.h"
#include "hastings/run/gan_run.h"
#include "hastings/run/sample_run.h"
#include "hastings/target/zoo.h"
#include "reproduce.h"
#include "support.h"

namespace hastings {
namespace {

namespace fs = std::filesystem;

// Phases whose streams are opened again on purpose: a flow is built again to be filled with stored numbers, images of
// the winners are made again from the latents that were scored, the same latents are shown while a GAN learns, and
// protocols on trial are compared by the same uniforms.
const std::set<Phase> kReopened = {Phase::kBuild,   Phase::kGanShow,          Phase::kGanSample,
                                   Phase::kCompare, Phase::kCalibrationTrial, Phase::kTrialFilter};

// Phases that were drawn from; fails where two streams overlap.
std::set<Phase> walked(const StreamLedger& ledger) {
  struct Range {
    uint64_t first, end, stream;
  };
  std::map<std::tuple<uint64_t, Phase, uint64_t, Purpose>, std::vector<Range>> uses;
  std::set<Phase> phases;
  for (const auto& e : ledger.entries()) {
    phases.insert(e.phase);
    uses[{e.seed, e.phase, e.index, e.purpose}].push_back({e.first, e.first + e.blocks, e.stream});
  }
  for (auto& [key, ranges] : uses) {
    const auto& [seed, phase, index, purpose] = key;
    if (kReopened.contains(phase)) continue;
    std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
    for (size_t i = 1; i < ranges.size(); ++i) {
      if (ranges[i].first >= ranges[i - 1].end) continue;
      ADD_FAILURE() << "phase " << static_cast<int>(phase) << ", index " << index << ", purpose "
                    << static_cast<int>(purpose) << ": block " << ranges[i].first << " is drawn twice";
      break;
    }
  }
  return phases;
}

std::string fresh_folder(const std::string& name) {
  const std::string path = (fs::path(testing::TempDir()) / ("hastings-streams-" + name)).string();
  fs::remove_all(path);
  return path;
}

TEST(Streams, TheLedgerSeesWhatIsDrawnTwice) {
  const StreamLedger ledger;
  Stream a(1, Phase::kTest, 0, Purpose::kData), again(1, Phase::kTest, 0, Purpose::kData);
  a.normal({10});
  again.seek(4);
  again.uniform({10});
  EXPECT_NONFATAL_FAILURE(walked(ledger), "block 4 is drawn twice");
}

TEST(Streams, OfAFitAndItsRunAreApart) {
  const StreamLedger ledger;
  const auto target = make_funnel(6);
  FitOptions options;
  options.learn.max_iterations = 600;
  options.learn.max_seconds = 0;
  Observer silent;
  OutputFolder folder(fresh_folder("run"), FolderKind::kRun);
  const Fit fitted = fit(*target, options, silent);
  ASSERT_EQ(fitted.flow.family, "coupling");  // it has grown: two stages of learning
  save_fit(folder, *target, options, fitted);
  SampleRequest request;
  request.options.draws = 600;
  request.options.local_moves = LocalMoves::kHmc;
  request.save_warmup = true;
  sample_into(folder, *target, load_fit(folder.path(), 6), request, 0, silent);
  const auto phases = walked(ledger);
  for (const Phase phase : {Phase::kBuild, Phase::kStart, Phase::kLearn, Phase::kJudge, Phase::kRounding, Phase::kTrial,
                            Phase::kLocalTuning, Phase::kRepeat, Phase::kChain})
    EXPECT_TRUE(phases.contains(phase)) << static_cast<int>(phase);
}

TEST(Streams, OfAGansLifeAreApart) {
  const StreamLedger ledger;
  Observer silent;
  const Tensor pixels = (Stream(1, Phase::kTest, 0, Purpose::kData).uniform({1600, 1, 8, 8}) * 255).to(at::kByte);
  const std::string data = fresh_folder("data") + ".npy";
  std::string head = "{'descr': '|u1', 'fortran_order': False, 'shape': (1600, 8, 8, 1), }";
  head.resize(117, ' ');
  const Tensor rows = pixels.permute({0, 2, 3, 1}).contiguous();
  write_file(data, std::string("\x93NUMPY\1\0\x76\0", 10) + head + "\n" +
                       std::string(static_cast<const char*>(rows.data_ptr()), static_cast<size_t>(rows.numel())));
  GanData how;
  how.spec = data;
  how.splits.calibrate = 600;
  how.splits.reference = 400;
  const SplitImages images = load_split_images(how);
  OutputFolder folder(fresh_folder("gan"), FolderKind::kGan);
  GanTrainRequest request;
  request.networks = "mlp";
  request.width = 16;
  request.latent = 4;
  request.train.batch = 32;
  request.train.iterations = 60;
  train_gan(folder, images, request, false, silent);
  const Pair pair = load_pair(folder.path() + "/pair.json");
  ClassifierOptions classifier;
  classifier.steps = 5;
  const Tensor part = images.part(images.splits.train);
  const FeatureNetwork witness =
      learn_classifiers(part, at::arange(part.size(0), at::kLong).remainder(3), classifier, silent);
  CalibrateOptions calibration;
  calibration.per_output = 0;
  const ChosenCalibration chosen = choose_calibration(pair, images.part(images.splits.calibrate), calibration, silent);
  const Proposals proposals(pair, 1, Phase::kGanSample, 2);
  std::vector<FilterOptions> protocols;
  for (const char* protocol : {"plain", "chain", "restarts", "rejection"})
    protocols.push_back({parse_protocol(protocol), 200, 10});
  proposals.render(
      filter_proposals(proposals, chosen, protocols, {1, Phase::kGanFilter}, silent).front().filtered.chosen);
  CompareOptions compare;
  compare.outputs = 200;
  compare.seeds = 2;
  compare.rivals = {"restarts"};
  compare_gan(folder, pair, chosen, images, witness, compare, silent);
  const auto phases = walked(ledger);
  for (const Phase phase :
       {Phase::kSplit, Phase::kGanBuild, Phase::kGanTrain, Phase::kGanShuffle, Phase::kGanShow, Phase::kClassifier,
        Phase::kCalibrationSplit, Phase::kCalibration, Phase::kCalibrationTrial, Phase::kTrialFilter, Phase::kGanSample,
        Phase::kGanFilter, Phase::kCompare, Phase::kCompareFilter, Phase::kCompareImages})
    EXPECT_TRUE(phases.contains(phase)) << static_cast<int>(phase);
}

// A cell is one target, method and seed; its neighbours are other experiments. Cells of flows are a fit and a run by
// one seed: see above.
TEST(Streams, OfACellOfTable1AreApart) {
  const StreamLedger ledger;
  reproduce::Options options;
  options.output = fresh_folder("table1");
  options.seeds = 1;
  options.quick = true;
  options.only = {"mog", "hmc"};
  Observer silent;
  const auto experiment = reproduce::table1();
  reproduce::Context context(experiment, options, silent, [](const std::string&) {});
  try {
    experiment.run(context);
  } catch (const ConfigError&) {  // no gnuplot for the figure
  }
  const auto phases = walked(ledger);
  EXPECT_TRUE(phases.contains(Phase::kHmcTuning) && phases.contains(Phase::kComparison));
}

TEST(Streams, OfALearnedKernelAreApart) {
  const StreamLedger ledger;
  Observer silent;
  L2hmcOptions options;
  options.iterations = 5;
  options.burn_in = 1;
  learn_l2hmc(*make_mog(), options, silent);
  EXPECT_TRUE(walked(ledger).contains(Phase::kL2hmc));
}

}  // namespace
}  // namespace hastings
