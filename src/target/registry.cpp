#include "hastings/target/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <numeric>

#include "hastings/core/error.h"
#include "hastings/target/logistic.h"
#include "hastings/target/user.h"
#include "hastings/target/zoo.h"

namespace hastings {
namespace {

constexpr std::string_view kDataMark = " data=";

struct Entry {
  const char* name;
  const char* summary;
  std::function<std::unique_ptr<Target>()> make;
  std::function<std::unique_ptr<Target>(int64_t)> make_dim;  // null: fixed dimension
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = {
      {"ring", "2-d, one ring of radius 2", [] { return make_ring(); }, nullptr},
      {"mog2", "2-d, two Gaussians ten apart", [] { return make_mog2(); }, nullptr},
      {"mog6", "2-d, six Gaussians on a circle of radius 5", [] { return make_mog6(); }, nullptr},
      {"ring5", "2-d, five concentric rings", [] { return make_ring5(); }, nullptr},
      {"icg", "50-d (icg:DIM for another), ill-conditioned Gaussian, variances 1e-2 to 1e2", [] { return make_icg(); },
       [](int64_t d) { return make_icg(d); }},
      {"scg", "2-d, strongly correlated Gaussian", [] { return make_scg(); }, nullptr},
      {"rough_well", "2-d, a Gaussian with a fine ripple", [] { return make_rough_well(); }, nullptr},
      {"mog", "2-d, two Gaussians four apart", [] { return make_mog(); }, nullptr},
      {"toy", "1-d, two Gaussians of different width", [] { return make_toy(); }, nullptr},
      {"gaussian", "2-d (gaussian:DIM), standard Gaussian", [] { return make_gaussian(); },
       [](int64_t d) { return make_gaussian(d); }},
      {"funnel", "2-d (funnel:DIM), Neal's funnel", [] { return make_funnel(); },
       [](int64_t d) { return make_funnel(d); }},
      {"banana", "2-d, twisted Gaussian", [] { return make_banana(); }, nullptr},
  };
  return all;
}

// Densities that users bring.
const std::vector<TargetInfo>& forms() {
  static const std::vector<TargetInfo> all = {
      {"script:FILE", "your density: TorchScript source, def log_prob(x: Tensor) -> Tensor, with a JSON beside it"},
      {"module:FILE.pt", "your density: a saved TorchScript module with log_prob or forward"},
      {"stan:MODEL.stan", "a Stan program; --data FILE.json"},
      {"stan:MODEL.so", "a model that BridgeStan built; --data FILE.json"},
      {"plugin:FILE.so", "your density: a shared object with the two functions of hastings/plugin.h"},
  };
  return all;
}

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row.back();
}

[[noreturn]] void unknown(const std::string& name) {
  std::vector<std::string> names = {"logistic:FILE"};
  for (const auto& form : forms()) names.push_back(form.name);
  for (const auto& entry : entries()) names.push_back(entry.name);
  std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return edit_distance(name, a.substr(0, a.find(':'))) < edit_distance(name, b.substr(0, b.find(':')));
  });
  names.resize(3);
  throw ConfigError(fmt::format("unknown target '{}'; the nearest names are {} (see `hastings targets`)", name,
                                fmt::join(names, ", ")));
}

int64_t parse_dim(const std::string& name, const std::string& text) {
  int64_t dim = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dim);
  if (error != std::errc() || end != text.data() + text.size() || dim < 1 || dim > kMaxDim) {
    throw ConfigError(fmt::format("target {}: '{}' is not a dimension from 1 to {}", name, text, kMaxDim));
  }
  return dim;
}

}  // namespace

std::vector<TargetInfo> list_targets() {
  std::vector<TargetInfo> list;
  for (const auto& entry : entries()) list.push_back({entry.name, entry.summary});
  list.push_back(
      {"logistic:FILE", "Bayesian logistic regression; CSV, white-space or libsvm file, label last (libsvm: first)"});
  list.push_back({"logistic:simulated", "5-d, the same on 200 simulated observations"});
  list.insert(list.end(), forms().begin(), forms().end());
  return list;
}

std::unique_ptr<Target> find_target(const std::string& spec, const TargetOptions& options) {
  const auto colon = spec.find(':');
  const std::string name = spec.substr(0, colon);
  const std::string argument = colon == std::string::npos ? "" : spec.substr(colon + 1);
  if (name == "stan") {
    const auto data = argument.find(kDataMark);
    const std::string file = argument.substr(0, data);
    if (file.empty()) throw ConfigError("target stan needs a file: stan:MODEL.stan or stan:MODEL.so");
    StanOptions stan{data == std::string::npos ? "" : argument.substr(data + kDataMark.size()), options.stan_toolchain,
                     options.tell};
    return make_stan_target(file, stan);
  }
  if (argument.find(kDataMark) != std::string::npos) throw ConfigError("--data belongs to stan: targets alone");
  if (name == "script" || name == "module" || name == "plugin") {
    if (argument.empty()) throw ConfigError(fmt::format("target {} needs a file: {}:FILE", name, name));
    return name == "script"   ? make_script_target(argument)
           : name == "module" ? make_module_target(argument)
                              : make_plugin_target(argument);
  }
  if (name == "logistic") {
    if (argument.empty()) throw ConfigError("target logistic needs a file: logistic:FILE (or logistic:simulated)");
    return argument == "simulated" ? make_logistic_simulated() : make_logistic_from_file(argument);
  }
  for (const auto& entry : entries()) {
    if (name != entry.name) continue;
    if (colon == std::string::npos) return entry.make();
    if (!entry.make_dim)
      throw ConfigError(fmt::format("target {} has a fixed dimension; '{}' is not understood", name, spec));
    return entry.make_dim(parse_dim(name, argument));
  }
  unknown(name);
}

}  // namespace hastings
