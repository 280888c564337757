#include "reproduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
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

}  // namespace

Context::Context(std::string experiment, const Options& options, Observer& observer,
                 std::function<void(const std::string&)> tell)
    : options_(options),
      folder_(fmt::format("{}/{}{}", options.output, experiment, options.quick ? "-quick" : "")),
      observer_(observer),
      tell_(std::move(tell)) {
  if (options_.seeds == 0) options_.seeds = options_.quick ? 1 : 5;
  make_directory(folder_ + "/cells");
}

std::vector<std::vector<std::string>> Context::chosen(const std::vector<std::vector<std::string>>& axes) const {
  std::vector<std::vector<std::string>> out(axes.size());
  std::vector<std::string> known;
  for (size_t a = 0; a < axes.size(); ++a) {
    for (const auto& name : axes[a]) {
      if (contains(options_.only, name)) out[a].push_back(name);
      known.push_back(name);
    }
    if (out[a].empty()) out[a] = axes[a];
  }
  for (const auto& name : options_.only) {
    if (known.empty()) throw ConfigError(fmt::format("--only {}: this experiment has no parts", name));
    if (!contains(known, name)) throw ConfigError(fmt::format("--only {}: there are {}", name, fmt::join(known, ", ")));
  }
  return out;
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
  if (!std::filesystem::exists(file)) return {};
  json cell = json::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
  if (cell.is_discarded()) return {};
  return cell;
}

void Context::keep(const std::string& key, const json& cell) { write_file(cell_file(key), cell.dump(1) + "\n"); }

void Context::write(const std::string& name, const std::string& text) {
  write_file(path(name), text);
  tell(fmt::format("{}", path(name)));
}

void Context::figure(const std::string& name, const Figure& figure) {
  write_figure(path(name), figure);
  tell(fmt::format("{}.png, .svg (data: .dat)", path(name)));
}

FitOptions paper_settings(const std::string& objective, uint64_t seed, bool quick) {
  FitOptions fit;
  fit.flow.family = "realnvp";
  fit.learn.objective = objective;
  fit.learn.max_seconds = 0;
  fit.learn.max_iterations = quick ? 1500 : 20000;
  fit.start.seed = fit.learn.seed = seed;
  if (objective == "vi") fit.start.method = "none";  // variational inference knows no buffer and no tempering
  return fit;
}

const std::vector<Experiment>& experiments() {
  static const std::vector<Experiment> all = {
      {"semimetric", "Appendix A.3: the triangle inequality fails, the 2/3 inequality holds", "seconds", semimetric},
      {"rejection", "Acceptance of independent MH against rejection sampling's 1/M", "seconds", rejection},
      {"toy", "Appendix C.4: landscapes of AR and ARLB with both optimisation paths", "seconds", toy},
      {"correlation", "Appendix C.5: AR against ARLB while ARLB is learned, on four targets", "2 minutes", correlation},
      {"proposals", "Appendix C.6: learned densities and histograms of 25k draws, for VI, AR and ARLB",
       "40 minutes; quick: 3 minutes", proposals},
      {"random-walk", "Appendix C.7: error of component means with and without a random walk, on mog6",
       "15 minutes; quick: 2 minutes", random_walk},
      {"exact-filter", "Section 4.2 on exact ground: the filter with the exact, a learned and a constant ratio",
       "a minute", exact_filter},
      {"table1", "Table 1: ESS and ESS/s of HMC, A-NICE-MC, L2HMC, AR, ARLB and VI on eleven targets",
       "hours a seed; quick: a quarter of an hour", table1},
  };
  return all;
}

}  // namespace hastings::reproduce
