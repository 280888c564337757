#include <fmt/format.h>

#include "hastings/core/json.h"
#include "hastings/core/registry.h"
#include "hastings/run/sample_run.h"
#include "run_options.h"
#include "summary_table.h"

namespace hastings::app {
namespace {

struct Options {
  SampleRunRequest request;
  Seeds seeds;
  Voice voice;
};

// What goes on with a run has the options it began with.
void add_sample_options(CLI::App& command, SampleRunRequest& request) {
  SampleRequest& r = request.sample;
  SampleOptions& s = r.options;
  auto* more =
      command.add_option("--more", request.more, "Add so many draws to each chain of a finished run, with its options")
          ->check(at_least(1))
          ->group("Sampling");
  auto* resume =
      command
          .add_flag("--resume", request.resume, "Go on with the sampling of a run that was killed, with its options")
          ->group("Sampling");
  more->excludes(resume);
  auto option = [&](auto* added) { added->capture_default_str()->group("Sampling")->excludes(more)->excludes(resume); };
  option(command.add_option("--chains", s.chains, "Number of chains"));
  option(command.add_option("--draws", s.draws, "Draws kept, each chain"));
  command
      .add_option("--target-ess", r.target_ess,
                  "Draw until every output has this bulk ESS, after no more learning than that needs (0: --draws)")
      ->capture_default_str()
      ->check(between(0, 1e12))
      ->group("Sampling")
      ->excludes(resume);
  command.add_option("--max-seconds", r.max_seconds, "Most seconds of sampling (0: no limit)")
      ->capture_default_str()
      ->check(at_least(0))
      ->group("Sampling")
      ->excludes(resume);
  option(command.add_option("--warmup", s.warmup, "First steps of each chain, discarded"));
  option(command.add_flag("--save-warmup", r.save_warmup, "Keep them too, in draws.npz"));
  option(command.add_option("--thin", s.thin, "Keep every N-th step"));
  s.local_moves = LocalMoves::kAuto;
  option(command
             .add_option_function<std::string>(
                 "--local-moves", [&s](const std::string& name) { parse(name, s.local_moves); },
                 "Mix in local steps: " + help_of(local_moves()))
             ->default_str(to_string(s.local_moves)));
  option(command.add_option("--local-fraction", s.local_fraction,
                            "Share of local steps (auto: at least a half, where it turns to them)"));
  option(command.add_option("--local-step", s.local_step, "Size of local steps in standard deviations (0: tuned)"));
  option(command.add_option("--leapfrog-steps", s.leapfrog_steps, "Leapfrog steps of an hmc move"));
}

int run(const Options& o) {
  SampleRunRequest request = o.request;
  set_seeds(request.fit.options, o.seeds);
  request.fit.options.learn.wanted_ess = request.sample.target_ess;  // no more learning than that needs
  request.fit.target.how.tell = o.voice.tell();
  request.sample.options.seed = o.seeds.seed;
  request.sample.options.threads = o.seeds.threads;
  if (!o.voice.quiet && !o.voice.json) request.note = [](const std::string& line) { fmt::print("{}\n", line); };
  Progress progress(o.voice.quiet);
  const SampleOutcome done = sample_run(request, progress);
  progress.done();
  if (o.voice.json) {
    auto full = read_json(done.run + "/summary.json");
    full["run"] = done.run;
    full["stopped"] = done.stopped;
    print_json(full);
  } else {
    print_summary(done.stored.summary);
    if (done.resumed_from > 0) fmt::print("{} draws of each chain were there already.\n", done.resumed_from);
    if (done.stopped == "interrupted" || done.stopped == "max-seconds")
      fmt::print("Stopped ({}); `hastings sample {} --more N` goes on.\n", done.stopped, done.run);
    fmt::print("Run folder: {}\n", done.run);
  }
  return done.stopped == "interrupted" ? 130 : 0;
}

}  // namespace

Command sample_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("sample", "Sample a target with the proposal of its run; learns it first if there is none");
  const auto o = std::make_shared<Options>();
  command->add_option("target", o->request.fit.target.target, "A target, or the folder of a run")->required();
  add_run_options(*command, o->request.fit, o->seeds, o->voice);
  add_target_options(*command, o->request.fit.target);
  add_checkpoint(*command, o->request.fit.checkpoint_seconds);
  add_sample_options(*command, o->request);
  add_fit_options(*command, o->request.fit.options, true);
  return {command, [o] { return run(*o); }};
}

}  // namespace hastings::app
