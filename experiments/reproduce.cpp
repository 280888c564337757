#include "reproduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/core/json.h"
#include "hastings/core/parallel.h"

namespace hastings::reproduce {

using nlohmann::json;

namespace {

// Of one among several jobs at once: its steps would be a jumble on the screen.
class Muted final : public Observer {
 public:
  explicit Muted(Observer& to) : to_(to) {}
  void on_warning(const std::string& text) override { to_.on_warning(text); }
  bool should_stop() override { return to_.should_stop(); }

 private:
  Observer& to_;
};

// The cells of a cells.json, which must be of the experiment `name`.
json read_gathered(const std::string& file, const std::string& name) {
  json gathered = read_json(file);
  if (!gathered.is_object() || !gathered.contains("cells") || !gathered["cells"].is_object())
    throw DataError(fmt::format("{}: not a cells.json of an experiment", file));
  if (gathered.value("experiment", "") != name)
    throw ConfigError(fmt::format("{}: of {}, not of {}", file, gathered.value("experiment", "?"), name));
  return gathered["cells"];
}

}  // namespace

Context::Context(const Experiment& experiment, const Options& options, Observer& observer,
                 std::function<void(const std::string&)> tell)
    : options_(options),
      name_(experiment.name + (options.quick ? "-quick" : "")),
      folder_(options.output.empty() ? "" : fmt::format("{}/{}", options.output, name_), FolderKind::kExperiment),
      observer_(observer),
      tell_(std::move(tell)) {
  if (options_.seeds == 0) options_.seeds = options_.quick ? 1 : 5;
  std::vector<std::string> known;
  for (const auto& axis : experiment.axes) {
    auto& kept = chosen_.emplace_back();
    for (const auto& name : axis) {
      if (contains(options_.only, name)) kept.push_back(name);
      known.push_back(name);
    }
    if (kept.empty()) kept = axis;
  }
  for (const auto& name : options_.only) {
    if (known.empty()) throw ConfigError(fmt::format("--only {}: {} has no parts", name, experiment.name));
    if (!contains(known, name)) throw ConfigError(fmt::format("--only {}: there are {}", name, fmt::join(known, ", ")));
  }
  if (!options_.from.empty()) known_ = read_gathered(options_.from, name_);
}

void Context::run(const std::vector<Job>& jobs) {
  const int cores = resolve_threads(options_.threads);
  const bool together = jobs.size() > 1 && cores > 1;
  Muted muted(observer_);
  int done = 0;
  auto one = [&](int64_t k, const Share& share) {
    using Clock = std::chrono::steady_clock;
    const Job& job = jobs[static_cast<size_t>(k)];
    const auto begin = Clock::now();
    if (!together) tell(fmt::format("{} ...", job.what));
    job.run(share);
    const std::lock_guard<std::mutex> lock(telling_);
    tell_(fmt::format("{} of {}: {} ({:.0f} s)", ++done, jobs.size(), job.what,
                      std::chrono::duration<double>(Clock::now() - begin).count()));
  };
  if (!together) {
    for (size_t k = 0; k < jobs.size(); ++k) one(static_cast<int64_t>(k), all_cores());
  } else {
    tell(fmt::format("{} to compute, {} at a time", jobs.size(), std::min<size_t>(jobs.size(), cores)));
    parallel_tasks(static_cast<int64_t>(jobs.size()), cores, [&](int64_t k) { one(k, {1, muted}); });
  }
}

void Context::tell(const std::string& line) {
  const std::lock_guard<std::mutex> lock(telling_);
  tell_(line);
}

std::optional<json> Context::find(const std::string& key) const {
  const std::string file = cell_file(key);
  if (std::filesystem::exists(file)) {
    try {
      return read_json(file);
    } catch (const DataError&) {  // computed again
    }
  }
  if (known_.contains(key)) return known_[key];
  return {};
}

void Context::keep(const std::string& key, const json& cell) {
  write_file(folder_.file("cells/" + key + ".json"), cell.dump(1) + "\n");
}

void Context::gather() {
  json all = known_;
  std::error_code none;
  for (const auto& file : std::filesystem::directory_iterator(path("cells"), none)) {
    const std::string key = file.path().stem();
    if (file.path().extension() != ".json") continue;
    if (const auto cell = find(key)) all[key] = *cell;
  }
  std::vector<std::string> lines;  // one cell each
  for (const auto& [key, cell] : all.items()) lines.push_back(fmt::format("{}: {}", json(key).dump(), cell.dump()));
  if (!lines.empty())
    write("cells.json",
          fmt::format("{{\"experiment\": {}, \"cells\": {{\n{}\n}}}}\n", json(name_).dump(), fmt::join(lines, ",\n")));
}

void Context::write(const std::string& name, const std::string& text) {
  write_file(folder_.file(name), text);
  tell(fmt::format("{}", path(name)));
}

void Context::figure(const std::string& name, const Figure& figure) {
  write_figure(folder_, name, figure);
  tell(fmt::format("{}.png, .svg (data: .dat)", path(name)));
}

FitOptions paper_settings(const std::string& objective, bool modes, uint64_t seed, bool quick) {
  FitOptions fit;
  fit.flow.family = "realnvp";
  fit.learn.objective = objective;
  fit.learn.max_seconds = 0;
  fit.learn.max_iterations = quick ? 1500 : 20000;
  fit.start.seed = fit.learn.seed = seed;
  if (objective == "vi") {
    fit.start.method = "none";                  // variational inference knows no buffer and no tempering
    if (modes) fit.learn.learning_rate = 1e-4;  // at the usual 2e-3 it drops all but one or two
  } else {
    fit.learn.batch = 256;  // more steps, of fewer candidates
    fit.learn.max_iterations *= 2;
    fit.learn.patience = 50;     // windows: a quarter of the steps
    fit.learn.lead_share = 0.5;  // AR forgets states far out, at which ARLB has looked
  }
  return fit;
}

const std::vector<Experiment>& experiments() {
  static const std::vector<Experiment> all = {semimetric(), rejection(),   toy(),          correlation(),
                                              proposals(),  random_walk(), exact_filter(), table1()};
  return all;
}

}  // namespace hastings::reproduce
