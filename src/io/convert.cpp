#include "hastings/io/convert.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <netcdf.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/io/npz.h"
#include "hastings/io/stored_draws.h"
#include "hastings/io/stored_fit.h"
#include "hastings/io/stored_summary.h"
#include "raw_file.h"
#include "stan_csv.h"

namespace hastings {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRows = 4096;  // copied at a time

// "theta.2", "Sigma.1.3": elements of one variable.
struct Variable {
  std::string name;
  std::vector<size_t> shape;     // of one draw
  std::vector<int64_t> columns;  // of the draws, in row-major order of the shape
};

std::vector<Variable> variables_of(const std::vector<std::string>& names) {
  struct Element {
    std::vector<size_t> index;
    int64_t column;
  };
  std::vector<std::pair<std::string, std::vector<Element>>> groups;
  for (size_t i = 0; i < names.size(); ++i) {
    std::string base = names[i];
    std::vector<size_t> index;
    for (size_t dot; (dot = base.rfind('.')) != std::string::npos && dot + 1 < base.size() && dot > 0 &&
                     std::all_of(base.begin() + static_cast<long>(dot) + 1, base.end(), ::isdigit);) {
      size_t number = 0;
      const auto [end, wrong] = std::from_chars(base.data() + dot + 1, base.data() + base.size(), number);
      if (wrong != std::errc() || number > names.size()) break;  // no index of an array of these
      index.insert(index.begin(), number);
      base.resize(dot);
    }
    auto found = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == base; });
    if (found == groups.end()) found = groups.insert(groups.end(), {base, {}});
    found->second.push_back({index, static_cast<int64_t>(i)});
  }
  std::vector<Variable> out;
  for (const auto& [base, elements] : groups) {
    Variable v{base, elements[0].index, std::vector<int64_t>(elements.size(), -1)};
    bool regular = true;
    for (const auto& e : elements) {
      regular &= e.index.size() == v.shape.size();
      for (size_t d = 0; regular && d < e.index.size(); ++d) v.shape[d] = std::max(v.shape[d], e.index[d]);
    }
    for (const auto& e : elements) {
      size_t at = 0;
      for (size_t d = 0; regular && d < v.shape.size(); ++d) {
        regular &= e.index[d] >= 1;
        at = at * v.shape[d] + e.index[d] - 1;
      }
      if (!regular || at >= v.columns.size()) {
        regular = false;
        break;
      }
      v.columns[at] = e.column;
    }
    regular &= std::find(v.columns.begin(), v.columns.end(), -1) == v.columns.end();
    if (regular) {
      out.push_back(std::move(v));
    } else {  // not the elements of an array: each for itself
      for (const auto& e : elements) out.push_back({names[static_cast<size_t>(e.column)], {}, {e.column}});
    }
  }
  return out;
}

double seconds_of(const RunSummary& summary) {
  return std::isfinite(summary.sample_seconds) ? summary.sample_seconds : 0;
}

// The NetCDF library's calls, with its words for what went wrong.
class NetCdf {
 public:
  explicit NetCdf(const std::string& path) : path_(path) {
    std::error_code ignored;
    fs::remove(path, ignored);  // what a kill left, or a link that leads elsewhere
    check(nc_create(path.c_str(), NC_NETCDF4 | NC_NOCLOBBER, &file_));
  }
  ~NetCdf() {
    if (open_) nc_abort(file_);
  }
  int group(const std::string& name) {
    int id;
    check(nc_def_grp(file_, name.c_str(), &id));
    return id;
  }
  int dimension(int group, const std::string& name, size_t size) {
    int id;
    check(nc_def_dim(group, name.c_str(), size, &id));
    return id;
  }
  int variable(int group, const std::string& name, nc_type type, const std::vector<int>& dimensions) {
    int id;
    check(nc_def_var(group, name.c_str(), type, static_cast<int>(dimensions.size()), dimensions.data(), &id));
    return id;
  }
  void attribute(int group, const char* name, const std::string& text) {
    check(nc_put_att_text(group, NC_GLOBAL, name, text.size(), text.c_str()));
  }
  void coordinate(int group, const std::string& name, int dimension, size_t size) {
    const int id = variable(group, name, NC_INT64, {dimension});
    std::vector<long long> values(size);
    for (size_t i = 0; i < size; ++i) values[i] = static_cast<long long>(i);
    check(nc_put_var_longlong(group, id, values.data()));
  }
  void check(int code) const {
    if (code != NC_NOERR) throw DataError(fmt::format("{}: cannot be written: {}", path_, nc_strerror(code)));
  }
  int file() const { return file_; }
  void close() {
    open_ = false;
    check(nc_close(file_));
  }

 private:
  std::string path_;
  int file_ = -1;
  bool open_ = true;
};

void write_group(NetCdf& out, const StoredDraws& stored, const std::string& prefix, const std::string& array_prefix,
                 int64_t draws, const RunSummary& summary) {
  const auto chains = static_cast<size_t>(stored.chains()), count = static_cast<size_t>(draws);
  auto begin = [&](const std::string& name, int dims[2]) {
    const int group = out.group(prefix + name);
    dims[0] = out.dimension(group, "chain", chains);
    dims[1] = out.dimension(group, "draw", count);
    out.coordinate(group, "chain", dims[0], chains);
    out.coordinate(group, "draw", dims[1], count);
    out.attribute(group, "inference_library", "hastings");
    out.attribute(group, "inference_library_version", version());
    out.attribute(group, "sampling_time", fmt::format("{}", seconds_of(summary)));
    return group;
  };
  int dims[2];
  const int posterior = begin("posterior", dims);
  const auto variables = variables_of(stored.names());
  std::vector<int> ids;
  for (const auto& v : variables) {
    std::vector<int> all = {dims[0], dims[1]};
    for (size_t d = 0; d < v.shape.size(); ++d)
      all.push_back(out.dimension(posterior, fmt::format("{}_dim_{}", v.name, d), v.shape[d]));
    ids.push_back(out.variable(posterior, v.name, NC_DOUBLE, all));
  }
  for (size_t c = 0; c < chains; ++c) {
    for (int64_t first = 0; first < draws; first += kRows) {
      const int64_t n = std::min(kRows, draws - first);
      const Tensor rows = stored.read(array_prefix + "draws", static_cast<int64_t>(c), first, n);
      for (size_t i = 0; i < variables.size(); ++i) {
        const auto& v = variables[i];
        const Tensor part = rows.index_select(1, at::tensor(v.columns, at::kLong)).contiguous();
        std::vector<size_t> start = {c, static_cast<size_t>(first)}, size = {1, static_cast<size_t>(n)};
        start.resize(2 + v.shape.size(), 0);
        size.insert(size.end(), v.shape.begin(), v.shape.end());
        out.check(nc_put_vara_double(posterior, ids[i], start.data(), size.data(), part.data_ptr<double>()));
      }
    }
  }
  const int stats = begin("sample_stats", dims);
  for (const auto& [array, name] :
       {std::pair("lp", "lp"), std::pair("accept_stat", "acceptance_rate"), std::pair("log_weight", "log_weight")}) {
    const int id = out.variable(stats, name, NC_DOUBLE, {dims[0], dims[1]});
    for (size_t c = 0; c < chains; ++c) {
      for (int64_t first = 0; first < draws; first += kRows) {
        const int64_t n = std::min(kRows, draws - first);
        const Tensor part = stored.read(array_prefix + array, static_cast<int64_t>(c), first, n);
        const size_t start[] = {c, static_cast<size_t>(first)}, size[] = {1, static_cast<size_t>(n)};
        out.check(nc_put_vara_double(stats, id, start, size, part.data_ptr<double>()));
      }
    }
  }
}

std::string to_netcdf(OutputFolder& folder, const StoredDraws& stored, const Target* target) {
  const std::string path = folder.file("draws.nc"), temporary = temporary_of(path);
  const RunSummary summary = load_summary(folder.path()).summary;
  try {
    NetCdf out(temporary);
    write_group(out, stored, "", "", stored.draws(), summary);
    if (stored.warmup() > 0) write_group(out, stored, "warmup_", "warmup_", stored.warmup(), summary);
    const auto observed = target ? target->observed_data() : std::map<std::string, Tensor>();
    if (!observed.empty()) {
      const int group = out.group("observed_data");
      for (const auto& [name, values] : observed) {
        const Tensor v = values.to(at::kDouble).contiguous();
        std::vector<int> dims;
        for (int64_t d = 0; d < v.dim(); ++d)
          dims.push_back(out.dimension(group, fmt::format("{}_dim_{}", name, d), static_cast<size_t>(v.size(d))));
        const int id = out.variable(group, name, NC_DOUBLE, dims);
        out.check(nc_put_var_double(group, id, v.data_ptr<double>()));
      }
    }
    out.close();
    fs::rename(temporary, path);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
  return path;
}

std::vector<std::string> to_csv(OutputFolder& folder, const StoredDraws& stored) {
  const StoredSummary summary = load_summary(folder.path());
  const std::string target = stored_target(folder.path());
  const double seconds = seconds_of(summary.summary);
  std::vector<std::string> files;
  for (int64_t c = 0; c < stored.chains(); ++c) {
    files.push_back(folder.file(fmt::format("chain-{}.csv", c + 1)));
    write_stan_csv(files.back(), target, summary.request.options, static_cast<int>(c), stored.names(), seconds,
                   [&](int64_t first, int64_t n) {
                     auto read = [&](const char* array) { return stored.read(array, c, first, n); };
                     return ChainRows{read("draws"), read("lp"), read("accept_stat"), read("log_weight")};
                   });
  }
  return files;
}

// From the text, which has every digit: for runs whose archive was lost.
std::string to_npz(OutputFolder& folder) {
  std::vector<Tensor> chains;
  for (int c = 1; fs::exists(fmt::format("{}/chain-{}.csv", folder.path(), c)); ++c)
    chains.push_back(read_stan_csv(fmt::format("{}/chain-{}.csv", folder.path(), c)).rows);
  if (chains.empty()) throw DataError(fmt::format("{}: has neither draws.npz nor chain-1.csv", folder.path()));
  for (const auto& chain : chains) {
    if (chain.sizes() != chains[0].sizes())
      throw DataError(fmt::format("{}: its chains have different sizes", folder.path()));
  }
  const Tensor all = at::stack(chains);  // [chains, draws, 3 + width]
  const ScratchFolder scratch(folder, ".converting");
  std::vector<NpzArray> arrays;
  auto add = [&](const char* name, const Tensor& values) {
    RawFile file(fmt::format("{}/{}", scratch.path(), name), 0);
    const Tensor v = values.contiguous();
    file.append(v.data_ptr<double>(), v.numel());
    file.flush();
    arrays.push_back({name, v.sizes().vec(), {file.path()}});
  };
  add("draws", all.narrow(2, 3, all.size(2) - 3));
  add("lp", all.select(2, 0));
  add("accept_stat", all.select(2, 1));
  add("log_weight", all.select(2, 2));
  const std::string path = folder.file("draws.npz");
  write_npz(scratch.path() + "/draws.npz", arrays);
  fs::rename(scratch.path() + "/draws.npz", path);
  return path;
}

}  // namespace

std::vector<std::string> convert_draws(OutputFolder& folder, const std::string& to, const Target* target) {
  load_summary(folder.path());  // says what is missing
  const std::string archive = folder.path() + "/draws.npz";
  if (to != "csv" && to != "netcdf" && to != "npz")
    throw ConfigError(fmt::format("format '{}': must be csv, netcdf or npz", to));
  if (!fs::exists(archive)) to_npz(folder);
  if (to == "npz") return {archive};
  const StoredDraws stored(folder.path());
  if (to == "csv") return to_csv(folder, stored);
  return {to_netcdf(folder, stored, target)};
}

}  // namespace hastings
