// The draws of a run: Stan CSV and npz, streamed.
#include <ATen/ATen.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hastings/core/error.h"
#include "hastings/io/files.h"
#include "hastings/io/npz.h"
#include "hastings/io/run_folder.h"

namespace hastings {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kColumnMemory = int64_t{64} << 20;  // bytes of draws read back at a time

// Names a reader of Stan CSV takes: letters, digits, '_' and '.'.
std::string csv_name(std::string name) {
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') c = '_';
  }
  return name.empty() ? "x" : name;
}

void append_number(std::string& text, double value) {
  if (!std::isfinite(value)) {
    text += std::isnan(value) ? "nan" : (value > 0 ? "inf" : "-inf");
    return;
  }
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;  // shortest that reads back the same
  text.append(digits, end);
}

std::string csv_head(const std::string& target, const SampleOptions& o, int chain) {
  return fmt::format(
      "# stan_version_major = 2\n# stan_version_minor = 35\n# stan_version_patch = 0\n"
      "# model = {}\n# method = sample (Default)\n#   sample\n#     num_samples = {}\n#     num_warmup = {}\n"
      "#     save_warmup = 0 (Default)\n#     thin = {}\n#     adapt\n#       engaged = 0\n"
      "#     algorithm = fixed_param\n#     num_chains = {}\n# id = {}\n# data\n#   file =\n# init = 2 (Default)\n# "
      "random\n#   seed = {}\n"
      "# written by hastings {}, an independent Metropolis-Hastings sampler\n",
      target, o.draws * o.thin, o.warmup, o.thin, o.chains, chain + 1, o.seed, version());
}

}  // namespace

// One chain's text, and its numbers as raw doubles in a scratch file: [draw][x_1 .. x_d, lp, accept, weight].
struct RunWriter::Chain {
  Chain(const std::string& csv_path, const std::string& raw_path, int64_t columns)
      : csv(csv_path), raw(raw_path), width(columns) {}
  AtomicFile csv;
  std::string raw;
  int64_t width;
  std::unique_ptr<AtomicFile> x, lp, accept, weight;
};

RunWriter::RunWriter(const std::string& folder, const Target& target, const SampleOptions& options)
    : folder_(folder), scratch_(fmt::format("{}/.sampling-{}", folder, ::getpid())), options_(options) {
  for (const auto& name : target.parameter_names()) names_.push_back(csv_name(name));
  make_directory(scratch_);
  try {
    for (int c = 0; c < options.chains; ++c) {
      auto chain = std::make_unique<Chain>(fmt::format("{}/chain-{}.csv", scratch_, c + 1), scratch_, target.dim());
      for (auto [name, file] : {std::pair("x", &chain->x), std::pair("lp", &chain->lp),
                                std::pair("accept", &chain->accept), std::pair("weight", &chain->weight)}) {
        *file = std::make_unique<AtomicFile>(fmt::format("{}/{}-{}", scratch_, name, c + 1));
      }
      std::string head = csv_head(target.name(), options, c) + "lp__,accept_stat__,log_weight__";
      for (const auto& name : names_) head += "," + name;
      chain->csv.write(head + "\n");
      chains_.push_back(std::move(chain));
    }
  } catch (...) {
    chains_.clear();
    std::error_code ignored;
    fs::remove_all(scratch_, ignored);
    throw;
  }
}

RunWriter::~RunWriter() {
  chains_.clear();
  std::error_code ignored;
  fs::remove_all(scratch_, ignored);
}

void RunWriter::on_draws(const DrawBlock& block) {
  Chain& chain = *chains_[static_cast<size_t>(block.chain)];
  const int64_t n = block.x.size(0), d = block.x.size(1);
  const double *x = block.x.data_ptr<double>(), *lp = block.log_prob.data_ptr<double>();
  const double *stat = block.accept_stat.data_ptr<double>(), *w = block.log_weight.data_ptr<double>();
  std::string text;
  text.reserve(static_cast<size_t>(n * (d + 3) * 20));
  for (int64_t i = 0; i < n; ++i) {
    append_number(text, lp[i]);
    text += ',';
    append_number(text, stat[i]);
    text += ',';
    append_number(text, w[i]);
    for (int64_t j = 0; j < d; ++j) {
      text += ',';
      append_number(text, x[i * d + j]);
    }
    text += '\n';
  }
  auto raw = [](const double* data, int64_t count) {
    return std::string_view(reinterpret_cast<const char*>(data), static_cast<size_t>(count) * sizeof(double));
  };
  chain.csv.write(text);
  chain.x->write(raw(x, n * d));
  chain.lp->write(raw(lp, n));
  chain.accept->write(raw(stat, n));
  chain.weight->write(raw(w, n));
}

namespace {

// Columns [begin, begin + count) of a raw [draws, width] file, as [count, draws].
void read_columns(const std::string& path, int64_t draws, int64_t width, int64_t begin, int64_t count, double* out) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw DataError(fmt::format("{}: cannot be read back: {}", path, std::strerror(errno)));
  const int64_t rows = std::max<int64_t>(1, (int64_t{4} << 20) / (width * 8));
  std::vector<double> block(static_cast<size_t>(rows * width));
  for (int64_t at = 0; at < draws; at += rows) {
    const int64_t now = std::min(rows, draws - at);
    const auto bytes = static_cast<size_t>(now * width) * sizeof(double);
    for (size_t done = 0; done < bytes;) {
      const ssize_t n = ::pread(file, reinterpret_cast<char*>(block.data()) + done, bytes - done,
                                static_cast<off_t>(at * width * 8) + static_cast<off_t>(done));
      if (n <= 0) {
        ::close(file);
        throw DataError(fmt::format("{}: cannot be read back", path));
      }
      done += static_cast<size_t>(n);
    }
    for (int64_t i = 0; i < now; ++i) {
      for (int64_t j = 0; j < count; ++j) out[j * draws + at + i] = block[static_cast<size_t>(i * width + begin + j)];
    }
  }
  ::close(file);
}

}  // namespace

Tensor RunWriter::column(int64_t parameter) const {
  const int64_t draws = options_.draws, chains = options_.chains;
  auto path = [&](const char* name, int64_t c) { return fmt::format("{}/{}-{}", scratch_, name, c + 1); };
  // The first reading closes the scratch files.
  for (const auto& chain : chains_) {
    for (auto* file : {&chain->x, &chain->lp, &chain->accept, &chain->weight}) {
      if (*file) (*file)->commit();
      file->reset();
    }
  }
  if (parameter < 0) {
    const char* name = parameter == -1 ? "lp" : (parameter == -2 ? "accept" : "weight");
    Tensor out = at::empty({chains, draws}, at::kDouble);
    for (int64_t c = 0; c < chains; ++c) read_columns(path(name, c), draws, 1, 0, 1, out[c].data_ptr<double>());
    return out;
  }
  const auto width = static_cast<int64_t>(names_.size());
  const int64_t group = std::clamp<int64_t>(kColumnMemory / (8 * chains * draws), 1, width);
  const int64_t begin = parameter / group * group, count = std::min(group, width - begin);
  if (cache_begin_ != begin) {
    cache_ = at::empty({chains, count, draws}, at::kDouble);
    for (int64_t c = 0; c < chains; ++c)
      read_columns(path("x", c), draws, width, begin, count, cache_[c].data_ptr<double>());
    cache_begin_ = begin;
  }
  return cache_.select(1, parameter - begin).contiguous();
}

void RunWriter::finish(const SampleReport& report, const RunSummary& summary) {
  column(-1);  // closes the scratch files
  cache_ = Tensor();
  const int64_t draws = options_.draws, chains = options_.chains;
  auto parts = [&](const char* name) {
    std::vector<std::string> files;
    for (int64_t c = 0; c < chains; ++c) files.push_back(fmt::format("{}/{}-{}", scratch_, name, c + 1));
    return files;
  };
  write_npz(scratch_ + "/draws.npz", {{"draws", {chains, draws, static_cast<int64_t>(names_.size())}, parts("x")},
                                      {"lp", {chains, draws}, parts("lp")},
                                      {"accept_stat", {chains, draws}, parts("accept")},
                                      {"log_weight", {chains, draws}, parts("weight")}});
  for (size_t c = 0; c < chains_.size(); ++c) {
    const double seconds = report.chains[c].seconds;
    chains_[c]->csv.write(
        fmt::format("# \n#  Elapsed Time: 0 seconds (Warm-up)\n#                {:.6g} seconds (Sampling)\n"
                    "#                {:.6g} seconds (Total)\n# \n",
                    seconds, seconds));
    chains_[c]->csv.commit();
  }
  json full = summary;
  full["options"] = options_;
  write_file(scratch_ + "/summary.json", full.dump(2) + "\n");
  // Chains of an earlier, larger run would no longer belong to this summary.
  for (int64_t c = chains; fs::exists(fmt::format("{}/chain-{}.csv", folder_, c + 1)); ++c)
    fs::remove(fmt::format("{}/chain-{}.csv", folder_, c + 1));
  std::vector<std::string> files = {"draws.npz", "summary.json"};
  for (int64_t c = 0; c < chains; ++c) files.push_back(fmt::format("chain-{}.csv", c + 1));
  for (const auto& file : files) {
    std::error_code error;
    fs::rename(scratch_ + "/" + file, folder_ + "/" + file, error);
    if (error) throw DataError(fmt::format("{}/{}: cannot be written: {}", folder_, file, error.message()));
  }
}

}  // namespace hastings
