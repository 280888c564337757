#include "hastings/diagnose/check.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "run_options.h"

namespace hastings::app {
namespace {

struct Options {
  TargetRequest target;
  uint64_t seed = 1;
  Voice voice;
};

void print(const std::string& name, const TargetCheck& c) {
  fmt::print("{}\n  dimension            {}{}\n  finite               {:.1f} % of {} points\n", name, c.dim,
             c.outputs == c.dim ? "" : fmt::format(" ({} outputs)", c.outputs), 100 * c.finite, c.points);
  if (c.finite > 0) {
    fmt::print(
        "  gradient             within {:.1e} of differences\n  rows of a batch      within {:.1e} of the row "
        "alone\n"
        "  rounding to float    changes the log density by {:.1e}\n  an evaluation        {:.2f} µs, with gradient "
        "{:.2f} µs (in batches of 256, one core)\n",
        c.gradient_error, c.batch_error, c.float_error, 1e6 * c.value_seconds, 1e6 * c.gradient_seconds);
  }
  for (const auto& line : c.problems) fmt::print("Problem: {}\n", line);
  for (const auto& line : c.notes) fmt::print("Note: {}\n", line);
  if (c.problems.empty()) fmt::print("Nothing wrong was found.\n");
}

int run(const Options& o) {
  TargetRequest request = o.target;
  request.how.tell = o.voice.tell();
  const auto target = request.open();
  const TargetCheck c = check_target(*target, o.seed);
  if (o.voice.json) {
    print_json({{"target", target->name()},
                {"dimension", c.dim},
                {"outputs", c.outputs},
                {"points", c.points},
                {"finite", c.finite},
                {"gradient_error", c.gradient_error},
                {"batch_error", c.batch_error},
                {"float_error", c.float_error},
                {"seconds_per_value", c.value_seconds},
                {"seconds_per_gradient", c.gradient_seconds},
                {"problems", c.problems},
                {"notes", c.notes}});
  } else {
    print(target->name(), c);
  }
  return c.problems.empty() ? 0 : 4;
}

}  // namespace

Command check_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("check", "Is a density fit to be sampled? Its gradient, batches, support and speed");
  const auto o = std::make_shared<Options>();
  command->add_option("target", o->target.target, "A target (see `hastings targets`)")->required();
  add_target_options(*command, o->target);
  add_seed(*command, o->seed, "Seed of the points");
  add_voice(*command, o->voice);
  return {command, [o] { return run(*o); }};
}

}  // namespace hastings::app
