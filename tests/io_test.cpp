#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/data/arrays.h"
#include "hastings/diagnose/ess.h"
#include "hastings/io/npz.h"
#include "hastings/io/stored_draws.h"
#include "hastings/io/stored_fit.h"
#include "hastings/io/stored_summary.h"
#include "hastings/io/tensors.h"
#include "hastings/run/fit_store.h"
#include "hastings/run/run_writer.h"
#include "hastings/run/sample_run.h"
#include "hastings/run/summarise.h"
#include "hastings/target/zoo.h"
#include "support.h"

namespace hastings {
namespace {

namespace fs = std::filesystem;

class IoTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = (fs::temp_directory_path() / ("hastings-io-" + std::to_string(::getpid()))).string();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string folder_;
};

TEST_F(IoTest, AtomicFilesAreWholeOrNotThere) {
  const std::string path = folder_ + "/f";
  write_file(path, "old");
  {
    AtomicFile file(path);
    file.write("half of the new");
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  write_file(path, std::string(3 << 20, 'x'));
  EXPECT_EQ(read_file(path).size(), size_t{3} << 20);
  EXPECT_THROW(write_file(folder_ + "/no/such/folder/f", ""), DataError);
  EXPECT_THROW(read_file(folder_), DataError);
}

// A limit on the size of files fails a write in the middle, as a full disk does.
TEST_F(IoTest, AFullDiskIsAnError) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string error;
  try {
    write_file(folder_ + "/f", std::string(2000, 'x'));
  } catch (const DataError& e) {
    error = e.what();
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_NE(error.find("File too large"), std::string::npos) << error;
  EXPECT_TRUE(fs::is_empty(folder_));
}

// A link in the place of the temporary file leads nowhere.
TEST_F(IoTest, LinksAreNotWrittenThrough) {
  write_file(folder_ + "/victim", "precious");
  fs::create_symlink(folder_ + "/victim", temporary_of(folder_ + "/f"));
  write_file(folder_ + "/f", "content");
  EXPECT_EQ(read_file(folder_ + "/victim"), "precious");
  EXPECT_EQ(read_file(folder_ + "/f"), "content");
}

TEST_F(IoTest, NpzRoundTrip) {
  Stream random(1, Phase::kTest, 0, Purpose::kExact);
  const Tensor x = random.normal({2, 50, 3}), y = random.normal({7});
  auto raw = [&](const std::string& name, const Tensor& t) {
    std::ofstream(folder_ + "/" + name, std::ios::binary).write(static_cast<const char*>(t.data_ptr()), t.numel() * 8);
    return folder_ + "/" + name;
  };
  write_npz(folder_ + "/a.npz", {{"x", {2, 50, 3}, {raw("x1", x[0].contiguous()), raw("x2", x[1].contiguous())}},
                                 {"y", {7}, {raw("y", y)}}});
  const auto back = read_npz(folder_ + "/a.npz");
  EXPECT_TRUE(at::equal(back.at("x"), x));
  EXPECT_TRUE(at::equal(back.at("y"), y));
  EXPECT_THROW(read_npz(folder_ + "/none.npz"), DataError);
  write_file(folder_ + "/bad.npz", "not a zip");
  EXPECT_THROW(read_npz(folder_ + "/bad.npz"), DataError);
  EXPECT_THROW(write_npz("/no/such/folder/a.npz", {{"y", {7}, {folder_ + "/y"}}}), DataError);
}

TEST_F(IoTest, RunFolderRoundTrip) {
  const auto target = make_banana();
  FitOptions options;
  options.learn.max_iterations = 30;
  options.flow.defensive = 0.05;
  Observer silent;
  const Fit fitted = fit(*target, options, silent);
  const std::string run = folder_ + "/run";
  OutputFolder folder(run, FolderKind::kRun);
  EXPECT_THROW(OutputFolder(run, FolderKind::kRun), DataError);  // one at a time
  save_fit(folder, *target, options, fitted);
  EXPECT_TRUE(is_run(run));
  EXPECT_EQ(stored_target(run), "banana");
  const StoredFit stored = load_fit(run, 2);
  Stream a(1, Phase::kTest, 0, Purpose::kProposal), b(1, Phase::kTest, 0, Purpose::kProposal);
  EXPECT_TRUE(at::equal(fitted.proposal->sample(100, a).log_q, stored.proposal->sample(100, b).log_q));

  SampleOptions sampling;
  sampling.chains = 2;
  sampling.draws = 700;
  MemorySink memory(2, 700, 2);
  sample(*target, *stored.proposal, sampling, memory, silent);
  {
    SampleRequest request;
    request.options = sampling;
    RunWriter writer(folder, *target, request);
    writer.start();
    const SampleReport report = sample(*target, *stored.proposal, sampling, writer, silent);
    EXPECT_TRUE(at::equal(writer.column(1), memory.draws.select(2, 1)));
    const RunSummary summary = summarise_run(*target, sampling, report, writer, stored);
    EXPECT_FALSE(fs::exists(run + "/draws.npz"));  // nothing is visible before the end
    writer.finish(report, summary, {{"seconds", at::zeros({3}, at::kDouble)}});
  }
  {
    // A chain longer than what is read back: 64 runs of two draws each, the first and the last among them.
    SampleRequest request;
    request.options = sampling;
    RunWriter writer(folder, *target, request, 2 * 128);
    writer.start();
    const SampleReport report = sample(*target, *stored.proposal, sampling, writer, silent);
    const Tensor column = writer.column(0), whole = memory.draws.select(2, 0);
    ASSERT_EQ(column.size(1), 128);
    for (int64_t b = 0; b < 64; ++b) {
      const int64_t start = 698 * b / 63;
      EXPECT_TRUE(at::equal(column.narrow(1, 2 * b, 2), whole.narrow(1, start, 2))) << b;
    }
    const RunSummary summary = summarise_run(*target, sampling, report, writer, stored);
    EXPECT_NEAR(summary.parameters[0].mean, whole.mean().item<double>(), 1e-12);
    EXPECT_NEAR(summary.parameters[0].sd, whole.reshape({-1}).std().item<double>(), 1e-12);
    EXPECT_NEAR(summary.parameters[0].ess_bulk, bulk_ess(column) * 700 / 128, 1e-6);
  }
  const auto arrays = read_npz(run + "/draws.npz");
  EXPECT_TRUE(at::equal(arrays.at("draws"), memory.draws));
  EXPECT_TRUE(at::equal(arrays.at("lp"), memory.log_prob));
  // The CSV holds the same numbers to the last bit.
  std::ifstream csv(run + "/chain-2.csv");
  std::string line;
  int64_t row = -1;
  while (std::getline(csv, line)) {
    if (line[0] == '#') continue;
    if (row < 0) {
      EXPECT_EQ(line, "lp__,accept_stat__,log_weight__,x.1,x.2");
    } else {
      const auto comma = line.rfind(',');
      EXPECT_EQ(std::stod(line.substr(comma + 1)), memory.draws[1][row][1].item<double>());
    }
    ++row;
  }
  EXPECT_EQ(row, 700);
  EXPECT_EQ(load_summary(run).summary.chains, 2);
  for (const auto& entry : fs::directory_iterator(run))
    EXPECT_EQ(entry.path().filename().string().find(".sampling"), std::string::npos);

  write_file(run + "/proposal.pt", "garbage");
  EXPECT_THROW(load_fit(run, 2), DataError);
  write_file(run + "/config.json", "{");
  EXPECT_THROW(stored_target(run), DataError);
  EXPECT_THROW(load_summary(folder_ + "/none"), ConfigError);
}

TEST_F(IoTest, ArraysFromBadFiles) {
  write_file(folder_ + "/a.npy", "\x93NUMPY");
  EXPECT_THROW(read_npy(folder_ + "/a.npy"), DataError);
  write_file(folder_ + "/b.npy", "text");
  EXPECT_THROW(read_npy(folder_ + "/b.npy"), DataError);
  EXPECT_THROW(read_array(folder_ + "/none.npz:x"), DataError);
  EXPECT_THROW(read_array(folder_ + "/none.csv"), DataError);
  write_file(folder_ + "/c.csv", "1 2\n3 x\n");
  EXPECT_THROW(read_array(folder_ + "/c.csv"), DataError);
  write_file(folder_ + "/d.csv", "1\n2\n");
  EXPECT_EQ(read_array(folder_ + "/d.csv").dim(), 1);
}

}  // namespace
}  // namespace hastings
