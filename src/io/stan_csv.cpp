#include "stan_csv.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/io/stored_fit.h"

namespace hastings {
namespace {

constexpr int64_t kRows = 4096;  // at a time
constexpr int kMaxText = 26;     // characters of a number and what separates it from the next

std::string head(const std::string& target, const SampleOptions& o, int chain, const std::vector<std::string>& names) {
  std::string text = fmt::format(
      "# stan_version_major = 2\n# stan_version_minor = 35\n# stan_version_patch = 0\n"
      "# model = {}\n# method = sample (Default)\n#   sample\n#     num_samples = {}\n#     num_warmup = {}\n"
      "#     save_warmup = 0 (Default)\n#     thin = {}\n#     adapt\n#       engaged = 0\n"
      "#     algorithm = fixed_param\n#     num_chains = {}\n# id = {}\n# data\n#   file =\n# init = 2 (Default)\n# "
      "random\n#   seed = {}\n# written by hastings {}, an independent Metropolis-Hastings sampler\n",
      target, o.draws * o.thin, o.warmup, o.thin, o.chains, chain + 1, o.seed, version());
  text += "lp__,accept_stat__,log_weight__";
  for (const auto& name : names) text += "," + name;
  return text + "\n";
}

// The shortest text that reads back as the same number.
char* write_number(char* out, double value) {
  if (std::isfinite(value)) return std::to_chars(out, out + kMaxText, value).ptr;
  const char* text = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  const size_t n = std::strlen(text);
  std::memcpy(out, text, n);
  return out + n;
}

}  // namespace

std::string csv_name(std::string name) {
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') c = '_';
  }
  return name.empty() ? "x" : name;
}

void write_stan_csv(const std::string& path, const std::string& target, const SampleOptions& options, int chain,
                    const std::vector<std::string>& names, double seconds,
                    const std::function<ChainRows(int64_t first, int64_t n)>& read) {
  AtomicFile file(path);
  file.write(head(target, options, chain, names));
  std::vector<char> text;
  for (int64_t first = 0; first < options.draws; first += kRows) {
    const int64_t n = std::min(kRows, options.draws - first), width = static_cast<int64_t>(names.size());
    const ChainRows rows = read(first, n);
    text.resize(static_cast<size_t>(n * (width + 3)) * kMaxText);
    const double *x = rows.outputs.data_ptr<double>(), *lp = rows.log_prob.data_ptr<double>();
    const double *stat = rows.accept_stat.data_ptr<double>(), *weight = rows.log_weight.data_ptr<double>();
    char* out = text.data();
    for (int64_t i = 0; i < n; ++i) {
      out = write_number(out, lp[i]);
      *out++ = ',';
      out = write_number(out, stat[i]);
      *out++ = ',';
      out = write_number(out, weight[i]);
      for (int64_t j = 0; j < width; ++j) {
        *out++ = ',';
        out = write_number(out, x[i * width + j]);
      }
      *out++ = '\n';
    }
    file.write({text.data(), static_cast<size_t>(out - text.data())});
  }
  file.write(
      fmt::format("# \n#  Elapsed Time: 0 seconds (Warm-up)\n#                {:.6g} seconds (Sampling)\n"
                  "#                {:.6g} seconds (Total)\n# \n",
                  seconds, seconds));
  file.commit();
}

StanCsvContent read_stan_csv(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw DataError(fmt::format("{}: cannot be opened", path));
  StanCsvContent content;
  std::vector<double> values;
  int64_t line = 0;
  for (std::string text; std::getline(file, text);) {
    ++line;
    if (text.empty() || text[0] == '#') continue;
    std::istringstream fields(text);
    const bool names = content.names.empty();
    size_t count = 0;
    for (std::string field; std::getline(fields, field, ','); ++count) {
      if (names) {
        content.names.push_back(field);
        continue;
      }
      double value = std::numeric_limits<double>::quiet_NaN();
      const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
      if (error != std::errc() || end != field.data() + field.size())
        throw DataError(fmt::format("{}, line {}, column {}: '{}' is not a number", path, line, count + 1, field));
      values.push_back(value);
    }
    if (!names && count != content.names.size())
      throw DataError(
          fmt::format("{}, line {}: {} fields where {} were expected", path, line, count, content.names.size()));
  }
  if (content.names.size() < 4 || values.empty()) throw DataError(fmt::format("{}: holds no draws", path));
  content.rows = at::tensor(values, at::kDouble).view({-1, static_cast<int64_t>(content.names.size())});
  return content;
}

}  // namespace hastings
