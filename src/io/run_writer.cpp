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
constexpr int64_t kBlocks = 64;                       // that a long chain is diagnosed by

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

// One chain's text, its numbers as raw doubles in scratch files, and the running sums of its draws.
struct RunWriter::Chain {
  explicit Chain(const std::string& csv_path) : csv(csv_path) {}
  AtomicFile csv;
  std::unique_ptr<AtomicFile> x, lp, accept, weight;
  int64_t count = 0;
  std::vector<double> first, sum, square;  // of x - first, for each coordinate: no digits are lost far from zero
};

RunWriter::RunWriter(const std::string& folder, const Target& target, const SampleOptions& options,
                     int64_t max_diagnosed)
    : folder_(folder), scratch_(fmt::format("{}/.sampling-{}", folder, ::getpid())), options_(options) {
  const int64_t most = std::max<int64_t>(1, max_diagnosed / options.chains / kBlocks) * kBlocks;
  diagnosed_ = options.draws <= most ? options.draws : most;
  for (const auto& name : target.parameter_names()) names_.push_back(csv_name(name));
  make_directory(scratch_);
  try {
    for (int c = 0; c < options.chains; ++c) {
      auto chain = std::make_unique<Chain>(fmt::format("{}/chain-{}.csv", scratch_, c + 1));
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
  if (chain.count == 0) {
    chain.first.assign(x, x + d);
    chain.sum.assign(static_cast<size_t>(d), 0.0);
    chain.square.assign(static_cast<size_t>(d), 0.0);
  }
  chain.count += n;
  for (int64_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < chain.first.size(); ++j) {
      const double apart = x[static_cast<size_t>(i * d) + j] - chain.first[j];
      chain.sum[j] += apart;
      chain.square[j] += apart * apart;
    }
  }
  chain.csv.write(text);
  chain.x->write(raw(x, n * d));
  chain.lp->write(raw(lp, n));
  chain.accept->write(raw(stat, n));
  chain.weight->write(raw(w, n));
}

namespace {

// Columns [begin, begin + count) of a raw [draws, width] file, as [count, kept]: all draws, or kBlocks runs of
// consecutive ones, evenly spread.
void read_columns(const std::string& path, int64_t draws, int64_t kept, int64_t width, int64_t begin, int64_t count,
                  double* out) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw DataError(fmt::format("{}: cannot be read back: {}", path, std::strerror(errno)));
  const int64_t blocks = kept == draws ? 1 : kBlocks, size = kept / blocks;
  const int64_t rows = std::clamp<int64_t>((int64_t{4} << 20) / (width * 8), 1, size);
  std::vector<double> buffer(static_cast<size_t>(rows * width));
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t start = blocks == 1 ? 0 : (draws - size) * b / (blocks - 1);
    for (int64_t at = 0; at < size; at += rows) {
      const int64_t now = std::min(rows, size - at);
      const auto bytes = static_cast<size_t>(now * width) * sizeof(double);
      for (size_t done = 0; done < bytes;) {
        const ssize_t n = ::pread(file, reinterpret_cast<char*>(buffer.data()) + done, bytes - done,
                                  static_cast<off_t>((start + at) * width * 8) + static_cast<off_t>(done));
        if (n <= 0) {
          ::close(file);
          throw DataError(fmt::format("{}: cannot be read back", path));
        }
        done += static_cast<size_t>(n);
      }
      for (int64_t i = 0; i < now; ++i) {
        for (int64_t j = 0; j < count; ++j)
          out[j * kept + b * size + at + i] = buffer[static_cast<size_t>(i * width + begin + j)];
      }
    }
  }
  ::close(file);
}

}  // namespace

void RunWriter::moments(int64_t parameter, double& mean, double& sd) const {
  const auto j = static_cast<size_t>(parameter);
  const double origin = chains_[0]->first[j];
  double n = 0, sum = 0, square = 0;
  for (const auto& chain : chains_) {
    const double shift = chain->first[j] - origin, count = static_cast<double>(chain->count);
    n += count;
    square += chain->square[j] + 2 * shift * chain->sum[j] + count * shift * shift;
    sum += chain->sum[j] + count * shift;
  }
  mean = origin + sum / n;
  sd = std::sqrt(std::max(0.0, (square - sum * sum / n) / (n - 1)));
}

Tensor RunWriter::column(int64_t parameter) const {
  const int64_t draws = options_.draws, kept = diagnosed_, chains = options_.chains;
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
    Tensor out = at::empty({chains, kept}, at::kDouble);
    for (int64_t c = 0; c < chains; ++c) read_columns(path(name, c), draws, kept, 1, 0, 1, out[c].data_ptr<double>());
    return out;
  }
  const auto width = static_cast<int64_t>(names_.size());
  const int64_t group = std::clamp<int64_t>(kColumnMemory / (8 * chains * kept), 1, width);
  const int64_t begin = parameter / group * group, count = std::min(group, width - begin);
  if (cache_begin_ != begin) {
    cache_ = at::empty({chains, count, kept}, at::kDouble);
    for (int64_t c = 0; c < chains; ++c)
      read_columns(path("x", c), draws, kept, width, begin, count, cache_[c].data_ptr<double>());
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
