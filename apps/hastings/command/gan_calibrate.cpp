#include "hastings/run/gan_calibrate.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "gan_options.h"
#include "hastings/core/json.h"
#include "hastings/core/registry.h"

namespace hastings::app {
namespace {

struct Options {
  GanCalibrateRequest request;
  std::string method = "auto", protocol = "auto";
  Voice voice;
};

void print(const ChosenCalibration& c) {
  fmt::print("{:28} {:>9} {:>9}\n", "held-out diagnosis", "raw", "chosen");
  auto row = [&](const char* name, double raw, double chosen) {
    fmt::print("{:28} {:>9.4g} {:>9.4g}\n", name, raw, chosen);
  };
  const auto &r = c.raw_quality, &q = c.quality;
  row("log-loss (constant 0.693)", r.log_loss, q.log_loss);
  row("slope (right: 1)", r.slope, q.slope);
  row("Z statistic (right: 0 +- 1)", r.z, q.z);
  row("E generated d/(1-d) (1)", r.odds_fake, q.odds_fake);
  row("E real (1-d)/d (1)", r.odds_real, q.odds_real);
  row("AUC", r.auc, q.auc);
  row("accuracy", r.accuracy, q.accuracy);
  row("weight ESS share", r.weight_ess, q.weight_ess);
  fmt::print("\n{:32} {:>9} {:>11} {:>9} {:>12}\n", "tried", "log-loss", "acceptance", "different", "distance");
  auto line = [](const Trial& t, const std::string& name) {
    fmt::print("{:32} {:>9.3f} {:>11.3f} {:>8.0f} % {:>8.2f} +- {:.2f}\n", name, t.log_loss, t.acceptance,
               100 * t.unique, t.distance, t.distance_error);
  };
  for (size_t i = 0; i < c.trials.size() && i < 6; ++i) line(c.trials[i], c.trials[i].name());
  line(c.raw, "raw logits, chain");
  fmt::print("{:32} {:>9} {:>11} {:>9}   {:>8.2f} +- {:.2f}\n\n", "plain generator", "", "", "", c.plain.distance,
             c.plain.distance_error);
  for (const auto& reason : c.reasons) fmt::print("{}\n", reason);
}

int run(const Options& o, const std::set<std::string>& given) {
  GanCalibrateRequest request = o.request;
  request.options.method = parse_calibrated_method(o.method);
  request.options.protocol = parse_calibrated_protocol(o.protocol);
  request.given = given;
  request.tell = told(o.voice);
  Progress progress(o.voice.quiet);
  const GanCalibrateOutcome done = gan_calibrate(request, progress);
  progress.done();
  if (o.voice.json) {  // what was stored, without its long lists
    auto stored = read_json(done.run + "/calibration.json");
    for (const char* key : {"knots", "values", "trials"}) stored.erase(key);
    stored["run"] = done.run;
    print_json(stored);
  } else {
    print(done.chosen);
    fmt::print("Run folder: {}; `hastings gan sample {}` is next.\n", done.run, done.run);
  }
  return 0;
}

}  // namespace

Command gan_calibrate_command(CLI::App& gan) {
  auto* command = gan.add_subcommand(
      "calibrate", "Turn the discriminator's scores into a density ratio, and choose how to sample with it");
  const auto o = std::make_shared<Options>();
  GanCalibrateRequest& r = o->request;
  CalibrateOptions& k = r.options;
  command->add_option("pair", r.pair, "A run's folder, or a JSON file that describes a pair trained elsewhere")
      ->required();
  command->add_option("--data", r.data.spec, "Real images (a trained run knows its own)");
  command->add_option("-o,--output", r.output, "Run folder for a pair from elsewhere (default: runs/NAME)");
  command->add_option("--weights-folder", r.weights_folder,
                      "Where the pair's files of weights are (default: beside its JSON)");
  command->add_option("--method", o->method, "auto, or " + help_of(calibrators()))->capture_default_str();
  command->add_option("--penalty", k.penalty, "C of the ridge on features, its inverse strength (auto tries several)")
      ->capture_default_str();
  command->add_option("--protocol", o->protocol, alternatives(calibrated_protocols()))->capture_default_str();
  command
      ->add_option("--per-output", k.per_output,
                   "Proposals an output; 0: thin a chain by its autocorrelation, to one repeat in twenty")
      ->capture_default_str();
  command
      ->add_option("--witness", r.witness,
                   "A second opinion: a network (JSON layer list with weights) in whose features distances are judged "
                   "and on which ratios may be learned; auto: small classifiers, where the images the run was trained "
                   "on have labels; none: the discriminator alone")
      ->capture_default_str();
  command->add_option("--witness-weights", r.witness_weights, "Its file of weights (default: as the JSON says)");
  command->add_option("--seed", k.seed, "Seed of the trial proposals")->capture_default_str();
  add_threads(*command, k.threads);
  add_data_options(*command, r.data);
  add_voice(*command, o->voice);
  return {command, [o, command] { return run(*o, given(*command)); }};
}

}  // namespace hastings::app
