// The table of docs/results.md: the paper's eleven rows by default settings, over several seeds. A finished cell is
// kept in a file and never computed twice. (With the paper's network: `hastings reproduce table1`.)
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/diagnose/ess.h"
#include "hastings/io/stored_fit.h"
#include "hastings/sample/sampler.h"
#include "hastings/target/registry.h"
#include "measure.h"

using namespace hastings;
using nlohmann::json;

namespace {

using reproduce::Row;

std::vector<Row> rows() {
  const char* data = std::getenv("HASTINGS_TEST_DATA");
  return reproduce::paper_rows(data ? data : ".");
}

json compute(const Row& row, uint64_t seed, int threads) {
  constexpr int kChains = 64;
  const auto target = find_target(row.target);
  FitOptions options;
  options.learn.threads = threads;
  options.start.seed = options.learn.seed = seed;
  Observer silent;
  const Fit learned = fit(*target, options, silent);
  SampleOptions sampling;
  sampling.chains = kChains;
  sampling.draws = row.draws;
  sampling.seed = seed;
  sampling.threads = threads;
  MemorySink sink(kChains, row.draws, target->dim());
  const SampleReport report = sample(*target, *learned.proposal, sampling, sink, silent);
  double accepted = 0, steps = 0, longest = 0;
  for (const auto& chain : report.chains) {
    accepted += chain.scan.acceptance_sum;
    steps += static_cast<double>(chain.steps);
    longest = std::max(longest, static_cast<double>(chain.scan.longest_run));
  }
  const Truth truth = reproduce::truth_of(row.name, *target);
  const Tensor flat = sink.draws.view({-1, target->dim()});
  const double ess = reproduce::least_ess(*target, truth, sink.draws);
  const double bulk = reproduce::least_bulk_ess(*target, sink.draws);
  json cell = {{"ess", ess},
               {"bulk_share", bulk / static_cast<double>(kChains * row.draws)},
               {"acceptance", accepted / steps},
               {"fit_seconds", learned.seconds},
               {"iterations", learned.learning.iterations},
               {"stopped", learned.learning.stopped},
               {"start", learned.start_method},
               {"start_acceptance", learned.start_acceptance},
               {"family", learned.flow.family},
               {"longest_run", longest},
               {"draws_per_second", steps / report.seconds}};
  if (const auto regions = target->regions()) {
    const Tensor region = target->region_of(flat).view({kChains, row.draws});
    double worst = 0;
    for (int64_t k = 0; k < regions->weights.size(0); ++k) {
      const Tensor inside = at::eq(region, k).to(at::kDouble);
      const double error = (inside.mean() - regions->weights[k]).item<double>();
      worst = std::max(worst, std::fabs(error) / mcse_mean(inside));
    }
    cell["worst_region_error"] = worst;
  }
  return cell;
}

std::string table(const std::vector<Row>& all, int first, int seeds, const std::string& cache) {
  std::string text =
      "| target | published (AR) | ESS, mean | worst seed | acceptance | fit, s (longest) | draws/s | mode weights, "
      "worst "
      "error / s.e. |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const auto& row : all) {
    double ess = 0, worst = 1e300, acceptance = 0, seconds = 0, longest = 0, speed = 0, region = -1;
    int done = 0;
    for (int seed = first; seed < first + seeds; ++seed) {
      const std::string path = fmt::format("{}/{}-{}.json", cache, row.name, seed);
      if (!std::filesystem::exists(path)) continue;
      const json cell = json::parse(read_file(path));
      ++done;
      ess += cell["ess"].get<double>();
      worst = std::min(worst, cell["ess"].get<double>());
      acceptance += cell["acceptance"].get<double>();
      seconds += cell["fit_seconds"].get<double>();
      longest = std::max(longest, cell["fit_seconds"].get<double>());
      speed += cell["draws_per_second"].get<double>();
      if (cell.contains("worst_region_error")) region = std::max(region, cell["worst_region_error"].get<double>());
    }
    if (done == 0) continue;
    text += fmt::format("| {}{} | {:.0f} | {:.0f} | {:.0f} | {:.3f} | {:.1f} ({:.1f}) | {:.0f} | {} |\n", row.name,
                        done < seeds ? fmt::format(" [{} seeds]", done) : "", row.published.at("ar"), ess / done, worst,
                        acceptance / done, seconds / done, longest, speed / done,
                        region < 0 ? "" : fmt::format("{:.1f}", region));
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Makes the tables of docs/results.md"};
  int first = 1, seeds = 5, threads = 0;
  std::string commit = "unknown", cache = "results", only;
  bool print_only = false;
  app.add_option("--seeds", seeds, "How many seeds")->capture_default_str();
  app.add_option("--first-seed", first, "The first of them")->capture_default_str();
  app.add_option("--threads", threads, "0: all cores")->capture_default_str();
  app.add_option("--commit", commit, "Kept with each cell");
  app.add_option("--cache", cache, "Folder of finished cells")->capture_default_str();
  app.add_option("--only", only, "One row");
  app.add_flag("--print", print_only, "Only print the tables of the finished cells");
  CLI11_PARSE(app, argc, argv);
  try {
    make_directory(cache);
    for (const auto& row : rows()) {
      if (print_only || (!only.empty() && only != row.name)) continue;
      for (int seed = first; seed < first + seeds; ++seed) {
        const std::string path = fmt::format("{}/{}-{}.json", cache, row.name, seed);
        if (std::filesystem::exists(path)) continue;
        try {
          json cell = compute(row, static_cast<uint64_t>(seed), threads);
          cell["commit"] = commit;
          write_file(path, cell.dump(2) + "\n");
          fmt::print(stderr, "{} seed {}: ESS {:.0f}, acceptance {:.3f}, {:.1f} s\n", row.name, seed,
                     cell["ess"].get<double>(), cell["acceptance"].get<double>(), cell["fit_seconds"].get<double>());
        } catch (const DataError& error) {
          fmt::print(stderr, "{}: skipped: {}\n", row.name, error.what());
        }
      }
    }
    fmt::print("{}", table(rows(), first, seeds, cache));
  } catch (const Error& error) {
    fmt::print(stderr, "results: {}\n", error.what());
    return error.exit_code();
  }
  return 0;
}
