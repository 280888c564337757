#include "stan_csv.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "hastings/core/error.h"
#include "hastings/io/run_folder.h"
#include "number_text.h"

namespace hastings {
namespace {

// Of fixed length, so that it can be written again when the number of draws is known.
std::string head_text(const std::string& target, const SampleOptions& o, int chain,
                      const std::vector<std::string>& names) {
  const std::string count = fmt::format("{}", o.draws * o.thin);
  std::string text = fmt::format(
      "# stan_version_major = 2\n# stan_version_minor = 35\n# stan_version_patch = 0\n"
      "# model = {}\n# method = sample (Default)\n#   sample\n#     num_samples = {}\n#     num_warmup = {}\n"
      "#     save_warmup = 0 (Default)\n#     thin = {}\n#     adapt\n#       engaged = 0\n"
      "#     algorithm = fixed_param\n#     num_chains = {}\n# id = {}\n# data\n#   file =\n# init = 2 (Default)\n# "
      "random\n#   seed = {}\n"
      "# written by hastings {}, an independent Metropolis-Hastings sampler {:.<{}}\n",
      target, count, o.warmup, o.thin, o.chains, chain + 1, o.seed, version(), "", 20 - count.size());
  text += "lp__,accept_stat__,log_weight__";
  for (const auto& name : names) text += "," + name;
  return text + "\n";
}

}  // namespace

std::string csv_name(std::string name) {
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') c = '_';
  }
  return name.empty() ? "x" : name;
}

void StanCsv::head(const std::string& target, const SampleOptions& options, int chain,
                   const std::vector<std::string>& names) {
  file_.write(head_text(target, options, chain, names));
}

void StanCsv::rows(int64_t n, int64_t width, const double* x, const double* log_prob, const double* accept_stat,
                   const double* log_weight) {
  text_.resize(static_cast<size_t>(n * (width + 3)) * kMaxText);
  char* out = text_.data();
  for (int64_t i = 0; i < n; ++i) {
    out = write_number(out, log_prob[i]);
    *out++ = ',';
    out = write_number(out, accept_stat[i]);
    *out++ = ',';
    out = write_number(out, log_weight[i]);
    for (int64_t j = 0; j < width; ++j) {
      *out++ = ',';
      out = write_number(out, x[i * width + j]);
    }
    *out++ = '\n';
  }
  file_.write({text_.data(), static_cast<size_t>(out - text_.data())});
}

void StanCsv::finish(const std::string& target, const SampleOptions& options, int chain,
                     const std::vector<std::string>& names, double seconds) {
  file_.write(
      fmt::format("# \n#  Elapsed Time: 0 seconds (Warm-up)\n#                {:.6g} seconds (Sampling)\n"
                  "#                {:.6g} seconds (Total)\n# \n",
                  seconds, seconds));
  file_.overwrite_start(head_text(target, options, chain, names));
  file_.commit();
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
