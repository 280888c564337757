#include "reproduce.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "command.h"
#include "hastings/core/error.h"

namespace hastings::app {
namespace {

struct Options {
  std::string experiment;
  reproduce::Options options;
  Voice voice;
};

int run(const Options& o) {
  const auto& all = reproduce::experiments();
  if (o.experiment == "list") {
    for (const auto& e : all) fmt::print("{:12} {} ({})\n", e.name, e.what, e.cost);
    return 0;
  }
  bool found = false;
  Progress progress(o.voice.quiet);
  for (const auto& e : all) {
    if (o.experiment != "all" && o.experiment != e.name) continue;
    found = true;
    reproduce::Context context(e, o.options, progress, [&](const std::string& line) {
      progress.done();
      fmt::print("{}: {}\n", e.name, line);
      std::fflush(stdout);
    });
    e.run(context);
    context.gather();
  }
  if (found) return 0;
  std::vector<std::string> names;
  for (const auto& e : all) names.push_back(e.name);
  throw ConfigError(
      fmt::format("unknown experiment '{}'; there are {}, all and list", o.experiment, fmt::join(names, ", ")));
}

}  // namespace

Command reproduce_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "reproduce", "Repeat an experiment of the paper: CSV, Markdown and figures; goes on where it stopped");
  const auto o = std::make_shared<Options>();
  reproduce::Options& r = o->options;
  command->add_option("experiment", o->experiment, "Its name, `all`, or `list` for what there is and what each costs")
      ->required();
  command->add_option("-o,--output", r.output, "Folder of the results")->capture_default_str();
  command
      ->add_option("--seeds", r.seeds,
                   "How many seeds, where several are asked for: table1, exact-filter (default: 5, with --quick 1)")
      ->check(at_least(1));
  command->add_option("--seed", r.first_seed, "The first of them")->capture_default_str()->check(at_least(0));
  command->add_flag("--quick", r.quick, "Small settings: shows that it works, not what it can");
  command
      ->add_option("--only", r.only,
                   "These targets, these methods: `--only ring,mog2,arlb` computes ARLB on two targets")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--from", r.from,
                      "A cells.json of an earlier run of the experiment: what is in it is not computed again");
  command->add_option("--threads", r.threads, "Threads (0: all cores)")->capture_default_str()->check(at_least(0));
  command
      ->add_option(
          "--data", r.data,
          "Folder of uci/german.data-numeric, uci/heart.dat, uci/australian.dat (default: $HASTINGS_TEST_DATA)")
      ->envname("HASTINGS_TEST_DATA");
  command->add_flag("-q,--quiet", o->voice.quiet, "No progress");
  return {command, [o] { return run(*o); }};
}

}  // namespace hastings::app
