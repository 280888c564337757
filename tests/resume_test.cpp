// What was stopped goes on bit for bit as if it had not been.
#include <gtest/gtest.h>
#include <netcdf.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/core/json.h"
#include "hastings/data/arrays.h"
#include "hastings/io/convert.h"
#include "hastings/io/stored_draws.h"
#include "hastings/io/stored_fit.h"
#include "hastings/io/stored_summary.h"
#include "hastings/io/tensors.h"
#include "hastings/run/fit_store.h"
#include "hastings/run/run_writer.h"
#include "hastings/run/sample_run.h"
#include "hastings/target/constrain.h"
#include "hastings/target/registry.h"
#include "hastings/target/zoo.h"
#include "support.h"

namespace hastings {
namespace {

namespace fs = std::filesystem;

Fit quick_fit(const Target& target) {
  FitOptions options;
  options.learn.max_iterations = 30;
  options.learn.max_seconds = 0;
  Observer silent;
  return fit(target, options, silent);
}

class SamplerResume : public testing::TestWithParam<const char*> {};

TEST_P(SamplerResume, PortionsAndStoringChangeNothing) {
  const auto target = make_banana();
  const Fit fitted = quick_fit(*target);
  SampleOptions o;
  o.chains = 3;
  o.draws = 1500;
  o.thin = 2;
  o.warmup = 130;
  parse(GetParam(), o.local_moves);
  Observer silent;
  MemorySink whole(3, 1500, 2), parts(3, 1500, 2);
  const SampleReport expected = sample(*target, *fitted.proposal, o, whole, silent);
  std::map<std::string, Tensor> state;
  // Stops in the middle of blocks, at their ends, and right after the warm-up.
  for (const int64_t upto : {1, 191, 192, 700, 701, 1499, 1500}) {
    o.threads = upto % 2 + 1;
    Sampler sampler(*target, *fitted.proposal, o);
    if (!state.empty()) sampler.restore(state);
    sampler.advance_to(upto, parts, silent);
    EXPECT_EQ(sampler.draws(), upto);
    state = sampler.state();
    if (upto < 1500) continue;
    for (size_t c = 0; c < 3; ++c) {
      EXPECT_EQ(sampler.report().chains[c].steps, expected.chains[c].steps);
      EXPECT_EQ(sampler.report().chains[c].local_accepted, expected.chains[c].local_accepted);
      EXPECT_EQ(sampler.report().chains[c].scan.accepted, expected.chains[c].scan.accepted);
      EXPECT_EQ(sampler.report().chains[c].scan.longest_run, expected.chains[c].scan.longest_run);
      EXPECT_EQ(sampler.report().chains[c].log_weights, expected.chains[c].log_weights);
    }
  }
  EXPECT_TRUE(at::equal(whole.draws, parts.draws));
  EXPECT_TRUE(at::equal(whole.log_prob, parts.log_prob));
  EXPECT_TRUE(at::equal(whole.log_weight, parts.log_weight));
  EXPECT_TRUE(at::equal(whole.accept_stat, parts.accept_stat));
  state.erase("chain.1.independent.x");
  Sampler damaged(*target, *fitted.proposal, o);
  EXPECT_THROW(damaged.restore(state), DataError);
}
INSTANTIATE_TEST_SUITE_P(Kernels, SamplerResume, testing::Values("none", "rw", "mala", "hmc", "mixture"));

// Stops learning after a number of windows, as a kill would.
struct Killed {};
class MemoryStore final : public LearnStore {
 public:
  bool due() override { return true; }
  void save(const std::map<std::string, Tensor>& state) override {
    kept.clear();
    for (const auto& [name, tensor] : state) kept[name] = tensor.clone();
    if (--left == 0) throw Killed();
  }
  std::map<std::string, Tensor> load() override { return kept; }
  std::map<std::string, Tensor> kept;
  int left = 1000000;
};

class FitResume : public testing::TestWithParam<std::tuple<const char*, const char*, const char*>> {};

TEST_P(FitResume, LearningGoesOnBitForBit) {
  const auto [name, family, objective] = GetParam();
  const auto target = find_target(name);
  FitOptions o;
  o.flow.family = family;
  o.learn.objective = objective;
  o.learn.max_iterations = 280;
  o.learn.window = 20;
  if (o.learn.objective == "arlb") o.learn.reductions = 20;  // no end before its steps
  o.learn.max_seconds = 0;
  o.learn.target_acceptance = 1;  // never: learn to the end
  if (o.flow.family == "realnvp") o.flow.hidden = {32};
  Observer silent;
  const Fit expected = fit(*target, o, silent);
  MemoryStore store;
  int kills = 0;
  for (const int windows : {1, 2, 1, 3, 1, 1, 1000000}) {
    store.left = windows;
    try {
      const Fit resumed = fit(*target, o, silent, &store);
      const auto a = expected.proposal->state(), b = resumed.proposal->state();
      ASSERT_EQ(a.size(), b.size());
      for (const auto& [name, tensor] : a) EXPECT_TRUE(at::equal(tensor, b.at(name))) << name;
      EXPECT_EQ(expected.flow.family, resumed.flow.family);
      EXPECT_EQ(expected.learning.acceptance, resumed.learning.acceptance);
      EXPECT_EQ(expected.learning.iterations, resumed.learning.iterations);
      EXPECT_EQ(expected.learning.stopped, resumed.learning.stopped);
      ASSERT_EQ(expected.learning.history.size(), resumed.learning.history.size());
      for (size_t i = 0; i < expected.learning.history.size(); ++i) {
        EXPECT_EQ(expected.learning.history[i].phase, resumed.learning.history[i].phase);
        EXPECT_EQ(expected.learning.history[i].acceptance, resumed.learning.history[i].acceptance);
      }
      EXPECT_GE(kills, 3);
      return;
    } catch (const Killed&) {
      ++kills;
    }
  }
  FAIL();
}
INSTANTIATE_TEST_SUITE_P(Flows, FitResume,
                         testing::Values(std::tuple("banana", "spline", "ar"), std::tuple("mog2", "auto", "ar"),
                                         std::tuple("logistic:simulated", "bend", "ar"),
                                         std::tuple("logistic:simulated", "bend", "arlb"),
                                         std::tuple("ring", "realnvp", "ar"), std::tuple("ring", "realnvp", "vi"),
                                         std::tuple("funnel:6", "auto", "ar")));

class RunResume : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = (fs::temp_directory_path() / ("hastings-resume-" + std::to_string(::getpid()))).string();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string run(const std::string& name) {
    const std::string run = folder_ + "/" + name;
    FitOptions options;
    options.learn.max_iterations = 30;
    OutputFolder folder(run, FolderKind::kRun);
    save_fit(folder, *target_, options, fitted_);
    return run;
  }
  SampleOutcome sample_run(const std::string& run, const SampleRequest& request, int64_t more, Observer& observer) {
    OutputFolder folder(run, FolderKind::kRun, OutputFolder::Use::kGoOn);
    return sample_into(folder, *target_, load_fit(run, 3), request, more, observer);
  }
  static std::vector<std::string> convert(const std::string& run, const std::string& to, const Target* target) {
    OutputFolder folder(run, FolderKind::kRun, OutputFolder::Use::kGoOn);
    return convert_draws(folder, to, target);
  }
  static void expect_same(const std::string& a, const std::string& b) {
    EXPECT_TRUE(read_file(a + "/draws.npz") == read_file(b + "/draws.npz"));
    auto rows = [](const std::string& path) {  // without the time it took
      const std::string text = read_file(path);
      return text.substr(0, text.find("#  Elapsed"));
    };
    for (int c = 1; c <= 2; ++c) {
      const std::string chain = "/chain-" + std::to_string(c) + ".csv";
      EXPECT_TRUE(rows(a + chain) == rows(b + chain));
    }
    auto x = read_json(a + "/summary.json"), y = read_json(b + "/summary.json");
    EXPECT_EQ(x["parameters"], y["parameters"]);
    EXPECT_EQ(x["log_evidence"], y["log_evidence"]);
    EXPECT_EQ(x["acceptance"], y["acceptance"]);
  }
  SampleRequest request(int64_t draws) {
    SampleRequest r;
    r.options.chains = 2;
    r.options.draws = draws;
    r.save_warmup = true;
    return r;
  }
  // A positive parameter, so that what is written is not what is sampled.
  std::unique_ptr<Target> target_ = make_constrained(
      "gamma", {{"g", 0, Constraint::kLower, 0, 1}, {"v", 2, Constraint::kFree, 0, 1}}, [](const Tensor& x) {
        const Tensor g = x.select(1, 0), v = x.narrow(1, 1, 2);
        return 2 * g.log() - 2 * g - 0.5 * v.square().sum(1);
      });
  Fit fitted_ = quick_fit(*target_);
  Observer silent_;
  std::string folder_;
};

TEST_F(RunResume, MoreDrawsAreTheDrawsOfALongerRun) {
  const std::string whole = run("whole"), parts = run("parts");
  sample_run(whole, request(900), 0, silent_);
  sample_run(parts, request(300), 0, silent_);
  for (const int64_t more : {1, 99, 500}) {
    const SampleOutcome s = sample_run(parts, finished_request(parts), more, silent_);
    EXPECT_GT(s.resumed_from, 0);
    EXPECT_EQ(s.stopped, "draws");
  }
  expect_same(whole, parts);
  EXPECT_EQ(load_summary(parts).summary.draws, 900);
  EXPECT_GT(load_summary(parts).summary.parameters[0].q5, 0);  // constrained
}

// Asks to stop after some portions; or dies there.
struct Stopper : Observer {
  bool should_stop() override {
    if (--left > 0) return false;
    if (die) throw Killed();
    return true;
  }
  int left = 3;
  bool die = false;
};

TEST_F(RunResume, StoppedRunsEndWithWhatIsThere) {
  const std::string whole = run("whole"), parts = run("parts");
  SampleRequest r = request(200000);
  Stopper stopper;
  const SampleOutcome s = sample_run(parts, r, 0, stopper);
  EXPECT_EQ(s.stopped, "interrupted");
  const int64_t there = load_summary(parts).summary.draws;
  EXPECT_LT(there, 200000);
  EXPECT_EQ(StoredDraws(parts).draws(), there);
  sample_run(parts, finished_request(parts), 100, silent_);
  sample_run(whole, request(there + 100), 0, silent_);
  expect_same(whole, parts);
  EXPECT_NE(read_file(parts + "/chain-1.csv").find("num_samples = " + std::to_string(there + 100) + "\n"),
            std::string::npos);
}

TEST_F(RunResume, KilledRunsAreTakenUp) {
  const std::string whole = run("whole"), parts = run("parts");
  sample_run(whole, request(40000), 0, silent_);
  SampleRequest r = request(40000);
  r.checkpoint_seconds = 0;
  for (const int portions : {2, 3, 2}) {
    Stopper stopper;
    stopper.left = portions;
    stopper.die = true;
    EXPECT_THROW(sample_run(parts, r, 0, stopper), Killed);
    EXPECT_FALSE(fs::exists(parts + "/summary.json"));
  }
  const SampleOutcome s = sample_run(parts, interrupted_request(parts), 0, silent_);
  EXPECT_GT(s.resumed_from, 0);
  expect_same(whole, parts);
  EXPECT_FALSE(fs::exists(parts + "/.sampling"));
  EXPECT_THROW(interrupted_request(parts), ConfigError);
}

TEST_F(RunResume, DrawsUntilTheEffectiveSizeIsReached) {
  const std::string there = run("ess");
  SampleRequest r = request(200);
  r.target_ess = 3000;
  const SampleOutcome s = sample_run(there, r, 0, silent_);
  EXPECT_EQ(s.stopped, "target-ess");
  EXPECT_GE(s.stored.summary.min_ess_bulk, 3000);
  EXPECT_LT(s.stored.summary.min_ess_bulk, 9000);
  SampleRequest slow = request(int64_t{1} << 30);
  slow.max_seconds = 0.2;
  EXPECT_EQ(sample_run(there, slow, 0, silent_).stopped, "max-seconds");
}

TEST_F(RunResume, NetCdfAndBack) {
  const std::string there = run("formats");
  sample_run(there, request(500), 0, silent_);
  const auto arrays = read_npz(there + "/draws.npz");
  EXPECT_EQ(arrays.at("warmup_draws").size(1), 200);
  const auto files = convert(there, "netcdf", target_.get());
  ASSERT_EQ(files.size(), 1u);
  int file, group, id;
  ASSERT_EQ(nc_open(files[0].c_str(), NC_NOWRITE, &file), NC_NOERR);
  for (const char* name : {"posterior", "warmup_posterior", "sample_stats", "warmup_sample_stats"})
    EXPECT_EQ(nc_inq_grp_ncid(file, name, &group), NC_NOERR) << name;
  ASSERT_EQ(nc_inq_grp_ncid(file, "posterior", &group), NC_NOERR);
  ASSERT_EQ(nc_inq_varid(group, "v", &id), NC_NOERR);
  Tensor v = at::empty({2, 500, 2}, at::kDouble);
  ASSERT_EQ(nc_get_var_double(group, id, v.data_ptr<double>()), NC_NOERR);
  EXPECT_TRUE(at::equal(v, arrays.at("draws").narrow(2, 1, 2)));
  nc_close(file);
  // Text again from the archive, and an archive again from the text.
  const std::string text = read_file(there + "/chain-2.csv");
  fs::remove(there + "/chain-2.csv");
  EXPECT_EQ(convert(there, "csv", nullptr).size(), 2u);
  EXPECT_EQ(read_file(there + "/chain-2.csv").substr(0, text.find("#  Elapsed")),
            text.substr(0, text.find("#  Elapsed")));
  fs::remove(there + "/draws.npz");
  convert(there, "npz", nullptr);
  const Tensor back = read_npz(there + "/draws.npz").at("draws");
  EXPECT_TRUE(at::equal(back, arrays.at("draws")));
  EXPECT_THROW(convert(there, "xls", nullptr), ConfigError);
  EXPECT_THROW(convert(folder_ + "/none", "csv", nullptr), ConfigError);
}

}  // namespace
}  // namespace hastings
