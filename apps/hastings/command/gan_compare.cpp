#include "hastings/run/gan_compare.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "gan_options.h"

namespace hastings::app {
namespace {

struct Options {
  GanCompareRequest request;
  int64_t per_output = 0;
  Voice voice;
};

int run(const Options& o, const std::set<std::string>& given) {
  GanCompareRequest request = o.request;
  if (given.contains("per-output")) request.per_output = o.per_output;
  Progress progress(o.voice.quiet);
  const Comparison got = gan_compare(request, progress);
  progress.done();
  if (!o.voice.json) {
    fmt::print("{}", got.table);
    return 0;
  }
  auto rows = nlohmann::json::array();
  for (const auto& r : got.rows)
    rows.push_back({{"protocol", r.protocol},
                    {"mean", r.mean},
                    {"error", r.error},
                    {"difference", r.difference},
                    {"difference_error", r.difference_error},
                    {"low", r.low},
                    {"high", r.high},
                    {"acceptance", r.acceptance},
                    {"unique", r.unique},
                    {"seconds", r.seconds}});
  print_json({{"features", got.features}, {"real", got.real}, {"rows", rows}});
  return 0;
}

}  // namespace

Command gan_compare_command(CLI::App& gan) {
  auto* command =
      gan.add_subcommand("compare", "Score plain and filtered samples against reference images, over several seeds");
  const auto o = std::make_shared<Options>();
  GanCompareRequest& r = o->request;
  CompareOptions& c = r.options;
  command->add_option("run", r.run, "The folder of a calibrated run")->required();
  command->add_option("--features", r.features, "Feature network: a JSON layer list with weights")->required();
  command->add_option("--feature-weights", r.feature_weights, "Its file of weights (default: as the JSON says)");
  command->add_option("--data", r.data, "Where the run's data are now (default: where they were)");
  command->add_option("-n,--outputs", c.outputs, "Images of each kind and seed")->capture_default_str();
  command->add_option("--per-output", o->per_output, "Proposals an output (default: as calibrated)");
  command->add_option("--seeds", c.seeds, "How many seeds")->capture_default_str();
  command->add_option("--seed", c.first_seed, "The first of them")->capture_default_str();
  command->add_option("--rivals", c.rivals,
                      "Other protocols beside plain and the chosen one: rejection, top, restarts ...");
  add_threads(*command, c.threads);
  add_voice(*command, o->voice);
  return {command, [o, command] { return run(*o, given(*command)); }};
}

}  // namespace hastings::app
