#include <fmt/format.h>

#include "hastings/core/fields.h"
#include "hastings/run/fit_run.h"
#include "run_options.h"

namespace hastings::app {
namespace {

struct Options {
  FitRequest request;
  Seeds seeds;
  Voice voice;
};

int run(const Options& o) {
  FitRequest request = o.request;
  set_seeds(request.options, o.seeds);
  request.target.how.tell = o.voice.tell();
  Progress progress(o.voice.quiet);
  const FitOutcome done = fit_run(request, progress);
  progress.done();
  if (o.voice.json) {
    print_json(done);
  } else {
    fmt::print("Learned a proposal for {} in {:.1f} s and {} steps ({}): acceptance {:.3f}.\nRun folder: {}\n",
               done.target, done.seconds, done.iterations, done.stopped, done.acceptance, done.run);
  }
  return 0;
}

}  // namespace

Command fit_command(CLI::App& app) {
  auto* command = app.add_subcommand("fit", "Learn a proposal for a target and store it in a run folder");
  const auto o = std::make_shared<Options>();
  command
      ->add_option("target", o->request.target.target,
                   "A target (see `hastings targets`); with --resume the folder of a run")
      ->required();
  command->add_flag("--resume", o->request.resume,
                    "Go on with the learning of a run that was killed, with its options");
  add_run_options(*command, o->request, o->seeds, o->voice);
  add_target_options(*command, o->request.target);
  add_checkpoint(*command, o->request.checkpoint_seconds);
  add_fit_options(*command, o->request.options, false);
  return {command, [o] { return run(*o); }};
}

}  // namespace hastings::app
