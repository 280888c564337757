#include "hastings/run/run_writer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "../io/raw_file.h"
#include "../io/stan_csv.h"
#include "hastings/core/error.h"
#include "hastings/core/fields.h"
#include "hastings/core/files.h"
#include "hastings/core/json.h"
#include "hastings/core/parallel.h"
#include "hastings/io/npz.h"
#include "hastings/io/tensors.h"

namespace hastings {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kColumnMemory = int64_t{64} << 20;  // bytes of draws read back at a time
constexpr int64_t kBlocks = 64;                       // that a long chain is diagnosed by
constexpr int64_t kRows = 4096;                       // copied at a time

// The numbers of a draw, each kind in a file of its own; the same again for the warm-up.
constexpr const char* kKinds[] = {"draws", "lp", "accept_stat", "log_weight"};

}  // namespace

namespace {
std::vector<double> to_doubles(const Tensor& t) { return {t.data_ptr<double>(), t.data_ptr<double>() + t.numel()}; }
}  // namespace

// Raw files of one chain's draws, or of its warm-up.
struct RunWriter::Numbers {
  Numbers(const std::string& scratch, const std::string& prefix, int chain, int64_t width, int64_t rows) : count(rows) {
    for (size_t k = 0; k < 4; ++k) {
      const int64_t columns = k == 0 ? width : 1;
      files[k] = std::make_unique<RawFile>(fmt::format("{}/{}{}-{}", scratch, prefix, kKinds[k], chain + 1),
                                           rows * columns * 8);
    }
  }
  void append(const Tensor& outputs, const DrawBlock& block) {
    const Tensor* parts[] = {&outputs, &block.log_prob, &block.accept_stat, &block.log_weight};
    for (size_t k = 0; k < 4; ++k) files[k]->append(parts[k]->data_ptr<double>(), parts[k]->numel());
    count += outputs.size(0);
  }
  void flush() {
    for (auto& file : files) file->flush();
  }
  std::unique_ptr<RawFile> files[4];
  int64_t count = 0;
};

// One chain: its numbers, and the running sums of its draws.
struct RunWriter::Chain {
  Chain(const std::string& scratch, int chain, int64_t width, uint64_t seed, const std::vector<int64_t>& rows)
      : kept(scratch, "", chain, width, rows[0]),
        warmup(scratch, "warmup_", chain, width, rows[1]),
        output_stream(seed, Phase::kOutput, static_cast<uint64_t>(chain), Purpose::kData),
        warmup_stream(seed, Phase::kWarmupOutput, static_cast<uint64_t>(chain), Purpose::kData) {}
  Numbers kept, warmup;
  Stream output_stream, warmup_stream;     // of outputs that are random
  int64_t count = 0;                       // draws in the sums
  std::vector<double> first, sum, square;  // of x - first, for each output: no digits are lost far from zero
};

RunWriter::RunWriter(OutputFolder& folder, const Target& target, const SampleRequest& request, int64_t max_diagnosed)
    : folder_(folder),
      scratch_(folder.subfolder(".sampling")),
      target_(target),
      request_(request),
      max_diagnosed_(max_diagnosed) {
  for (const auto& name : target.output_names()) names_.push_back(csv_name(name));
}

RunWriter::~RunWriter() {
  chains_.clear();
  if (!keep_scratch_) folder_.remove(".sampling");
}

std::map<std::string, Tensor> RunWriter::take_up() {
  const std::string state_file = scratch_ + "/state.pt";
  if (!fs::exists(state_file)) return {};
  try {
    if (parse_json(scratch_ + "/request.json", read_file(scratch_ + "/request.json")) !=
        json{{"target", target_.name()}, {"request", request_}})
      return {};
    auto state = read_tensors(state_file);
    const Tensor rows = state.at("rows");  // [chains, 2]
    std::vector<std::vector<int64_t>> counts;
    for (int64_t c = 0; c < rows.size(0); ++c)
      counts.push_back({rows[c][0].item<int64_t>(), rows[c][1].item<int64_t>()});
    if (static_cast<int>(counts.size()) != request_.options.chains) return {};
    keep_scratch_ = true;
    open(counts);
    return state;
  } catch (const std::exception&) {  // damaged: as if it were not there
    chains_.clear();
    keep_scratch_ = false;
    return {};
  }
}

void RunWriter::start() {
  folder_.remove(".sampling");
  folder_.subfolder(".sampling");
  write_file(scratch_ + "/request.json", json{{"target", target_.name()}, {"request", request_}}.dump(2) + "\n");
  open(std::vector<std::vector<int64_t>>(static_cast<size_t>(request_.options.chains), {0, 0}));
}

// `rows`: for each chain, draws and steps of warm-up that are in the raw files already.
void RunWriter::open(const std::vector<std::vector<int64_t>>& rows) {
  const auto width = static_cast<int64_t>(names_.size());
  for (int c = 0; c < request_.options.chains; ++c) {
    chains_.push_back(std::make_unique<Chain>(scratch_, c, width, request_.options.seed, rows[static_cast<size_t>(c)]));
    for (int64_t first = 0; first < chains_.back()->kept.count; first += kRows)
      add_up(c, read_rows(c, first, std::min(kRows, chains_.back()->kept.count - first)).outputs);
  }
}

// Draws of a chain, back from the raw files.
ChainRows RunWriter::read_rows(int chain, int64_t first, int64_t n) const {
  auto read = [&](size_t kind, int64_t columns) {
    Tensor out = at::empty({n, columns}, at::kDouble);
    read_raw(chains_[static_cast<size_t>(chain)]->kept.files[kind]->path(), first * columns, n * columns,
             out.data_ptr<double>());
    return out;
  };
  return {read(0, static_cast<int64_t>(names_.size())), read(1, 1), read(2, 1), read(3, 1)};
}

void RunWriter::continue_from(const StoredDraws& stored) {
  start();
  for (int c = 0; c < request_.options.chains; ++c) {
    for (const bool warmup : {true, false}) {
      const int64_t count = warmup ? stored.warmup() : stored.draws();
      const std::string prefix = warmup ? "warmup_" : "";
      for (int64_t first = 0; first < count; first += kRows) {
        const int64_t n = std::min(kRows, count - first);
        auto read = [&](const char* kind) { return stored.read(prefix + kind, c, first, n); };
        const DrawBlock block{
            c, warmup, first, {}, read("lp").flatten(), read("log_weight").flatten(), read("accept_stat").flatten()};
        append(block, read("draws"));
      }
    }
  }
}

void RunWriter::on_draws(const DrawBlock& block) {
  if (block.warmup && !request_.save_warmup) return;
  Chain& chain = *chains_[static_cast<size_t>(block.chain)];
  Stream& stream = block.warmup ? chain.warmup_stream : chain.output_stream;
  stream.seek(static_cast<uint64_t>(block.first));
  append(block, target_.outputs(block.x, stream).contiguous());
}

void RunWriter::append(const DrawBlock& block, const Tensor& outputs) {
  Chain& chain = *chains_[static_cast<size_t>(block.chain)];
  (block.warmup ? chain.warmup : chain.kept).append(outputs, block);
  if (!block.warmup) add_up(block.chain, outputs);
}

void RunWriter::add_up(int chain_id, const Tensor& outputs) {
  Chain& chain = *chains_[static_cast<size_t>(chain_id)];
  const int64_t n = outputs.size(0), width = outputs.size(1);
  const double* x = outputs.data_ptr<double>();
  if (chain.count == 0) {
    chain.first.assign(x, x + width);
    chain.sum.assign(static_cast<size_t>(width), 0.0);
    chain.square.assign(static_cast<size_t>(width), 0.0);
  }
  chain.count += n;
  double *sum = chain.sum.data(), *square = chain.square.data();
  const double* origin = chain.first.data();
  for (int64_t i = 0; i < n; ++i) {
    const double* row = x + i * width;
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) {
      const double apart = row[j] - origin[j];
      sum[j] += apart;
      square[j] += apart * apart;
    }
  }
}

void RunWriter::checkpoint(std::map<std::string, Tensor> state) {
  folder_.check();
  std::vector<int64_t> rows;
  for (const auto& chain : chains_) {
    chain->kept.flush();
    chain->warmup.flush();
    rows.push_back(chain->kept.count);
    rows.push_back(chain->warmup.count);
  }
  state["rows"] = at::tensor(rows, at::kLong).view({-1, 2});
  write_tensors(scratch_ + "/state.pt", state);
  keep_scratch_ = true;
}

int64_t RunWriter::draws() const {
  int64_t least = chains_.empty() ? 0 : chains_[0]->kept.count;
  for (const auto& chain : chains_) least = std::min(least, chain->kept.count);
  return least;
}

int64_t RunWriter::diagnosed() const {
  const int64_t most = std::max<int64_t>(1, max_diagnosed_ / request_.options.chains / kBlocks) * kBlocks;
  return std::min(draws(), most);
}

namespace {

// Columns [begin, begin + count) of a raw [draws, width] file, as [count, kept]: all draws, or kBlocks runs of
// consecutive ones, evenly spread.
void read_columns(const std::string& path, int64_t draws, int64_t kept, int64_t width, int64_t begin, int64_t count,
                  double* out) {
  const int64_t blocks = kept == draws ? 1 : kBlocks, size = kept / blocks;
  const int64_t rows = std::clamp<int64_t>((int64_t{4} << 20) / (width * 8), 1, size);
  std::vector<double> buffer(static_cast<size_t>(rows * width));
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t start = blocks == 1 ? 0 : (draws - size) * b / (blocks - 1);
    for (int64_t at = 0; at < size; at += rows) {
      const int64_t now = std::min(rows, size - at);
      read_raw(path, (start + at) * width, now * width, buffer.data());
      for (int64_t i = 0; i < now; ++i) {
        for (int64_t j = 0; j < count; ++j)
          out[j * kept + b * size + at + i] = buffer[static_cast<size_t>(i * width + begin + j)];
      }
    }
  }
}

}  // namespace

void RunWriter::moments(int64_t output, double& mean, double& sd) const {
  const auto j = static_cast<size_t>(output);
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

Tensor RunWriter::column(int64_t output) const {
  const int64_t all = draws(), kept = diagnosed(), chains = request_.options.chains;
  if (cache_draws_ != all) {
    for (const auto& chain : chains_) chain->kept.flush();
    cache_draws_ = all;
    cache_begin_ = -1;
  }
  auto path = [&](size_t kind, int64_t c) { return chains_[static_cast<size_t>(c)]->kept.files[kind]->path(); };
  if (output < 0) {
    Tensor out = at::empty({chains, kept}, at::kDouble);
    for (int64_t c = 0; c < chains; ++c)
      read_columns(path(static_cast<size_t>(-output), c), all, kept, 1, 0, 1, out[c].data_ptr<double>());
    return out;
  }
  const auto width = static_cast<int64_t>(names_.size());
  const int64_t group = std::clamp<int64_t>(kColumnMemory / (8 * chains * kept), 1, width);
  const int64_t begin = output / group * group, count = std::min(group, width - begin);
  if (cache_begin_ != begin) {
    cache_ = at::empty({chains, count, kept}, at::kDouble);
    for (int64_t c = 0; c < chains; ++c)
      read_columns(path(0, c), all, kept, width, begin, count, cache_[c].data_ptr<double>());
    cache_begin_ = begin;
  }
  return cache_.select(1, output - begin).contiguous();
}

void RunWriter::finish(const SampleReport& report, const RunSummary& summary,
                       const std::map<std::string, Tensor>& state) {
  cache_ = Tensor();
  cache_begin_ = -1;
  const int64_t chains = request_.options.chains, width = static_cast<int64_t>(names_.size());
  SampleOptions options = request_.options;
  options.draws = draws();
  std::vector<NpzArray> arrays;
  for (const bool warmup : {false, true}) {
    auto numbers = [&](int64_t c) -> Numbers& {
      auto& chain = *chains_[static_cast<size_t>(c)];
      return warmup ? chain.warmup : chain.kept;
    };
    if (warmup && numbers(0).count == 0) continue;
    for (size_t k = 0; k < 4; ++k) {
      NpzArray array{fmt::format("{}{}", warmup ? "warmup_" : "", kKinds[k]), {chains, numbers(0).count}, {}};
      if (k == 0) array.shape.push_back(width);
      for (int64_t c = 0; c < chains; ++c) {
        numbers(c).flush();
        array.parts.push_back(numbers(c).files[k]->path());
      }
      arrays.push_back(std::move(array));
    }
  }
  write_npz(scratch_ + "/draws.npz", arrays);
  parallel_tasks(chains, options.threads, [&](int64_t c) {
    const int chain = static_cast<int>(c);
    write_stan_csv(fmt::format("{}/chain-{}.csv", scratch_, c + 1), target_.name(), options, chain, names_,
                   report.chains[static_cast<size_t>(c)].seconds,
                   [&](int64_t first, int64_t n) { return read_rows(chain, first, n); });
  });
  SampleRequest done = request_;
  done.options = options;
  write_summary(scratch_ + "/summary.json", {summary, done, to_doubles(state.at("seconds"))});
  std::map<std::string, Tensor> timeless = state;
  timeless.erase("seconds");
  write_tensors(scratch_ + "/sampler.pt", timeless);
  folder_.check();
  // Chains of an earlier, larger run would no longer belong to this summary.
  for (int64_t c = chains; fs::exists(fmt::format("{}/chain-{}.csv", folder_.path(), c + 1)); ++c)
    folder_.remove(fmt::format("chain-{}.csv", c + 1));
  std::vector<std::string> files = {"draws.npz", "sampler.pt"};
  for (int64_t c = 0; c < chains; ++c) files.push_back(fmt::format("chain-{}.csv", c + 1));
  files.push_back("summary.json");
  for (const auto& file : files) {
    std::error_code error;
    fs::rename(scratch_ + "/" + file, folder_.file(file), error);
    if (error) throw DataError(fmt::format("{}/{}: cannot be written: {}", folder_.path(), file, error.message()));
  }
  keep_scratch_ = false;
}

}  // namespace hastings
