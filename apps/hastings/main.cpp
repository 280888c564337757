// hastings: learn a proposal by its acceptance rate, and sample with it.
#include <fmt/format.h>
#include <sys/resource.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "checks.h"
#include "commands.h"
#include "gan.h"
#include "guard.h"
#include "hastings/core/error.h"
#include "hastings/core/json.h"
#include "hastings/io/run_folder.h"

namespace {

using hastings::app::at_least;
using hastings::app::between;
using hastings::app::RunOptions;

void add_fit_options(CLI::App& command, RunOptions& o, std::string& flow, bool sampling) {
  auto& spec = o.fit.flow;
  auto& start = o.fit.start;
  auto& learn = o.fit.learn;
  command
      .add_option("--objective", learn.objective,
                  "What to learn by: ar (acceptance rate), arlb (its lower bound), vi (reverse KL)")
      ->capture_default_str()
      ->group("Learning");
  command
      .add_option("--flow", flow,
                  "Proposal: auto, spline, bend, coupling, realnvp (the paper's), gaussian, gaussian-diagonal")
      ->capture_default_str()
      ->group("Learning");
  command.add_option("--init", start.method, "Start: auto, laplace (modes and curvatures), anneal (tempering), none")
      ->capture_default_str()
      ->group("Learning");
  command.add_option("--start-scale", start.scale, "Spread of the first points (0: the target's own)")
      ->capture_default_str()
      ->group("Learning");
  command.add_option("--max-iterations", learn.max_iterations, "Most learning steps")
      ->capture_default_str()
      ->group("Learning");
  command
      .add_option(sampling ? "--max-learn-seconds" : "--max-seconds,--max-learn-seconds", learn.max_seconds,
                  "Most seconds of learning (0: no limit)")
      ->capture_default_str()
      ->check(at_least(0))
      ->group("Learning");
  command
      .add_option("--target-acceptance", learn.target_acceptance,
                  "Stop learning at this acceptance rate (0: chosen by the flow)")
      ->capture_default_str()
      ->group("Learning");
  command.add_option("--learning-rate", learn.learning_rate, "Adam's first step size (0: chosen by the flow)")
      ->capture_default_str()
      ->group("Learning");
  command.add_option("--batch", learn.batch, "Candidates a learning step (0: chosen by the flow)")
      ->capture_default_str()
      ->group("Learning");
  command.add_option("--couplings", spec.couplings, "Coupling layers (0: chosen by the flow)")
      ->capture_default_str()
      ->group("Network");
  command
      .add_option("--hidden", spec.hidden,
                  "Widths of the hidden layers, e.g. --hidden 64 64 (default: chosen by the flow)")
      ->group("Network");
  command.add_option("--activation", spec.activation, "relu, tanh or silu (default: chosen by the flow)")
      ->group("Network");
  command.add_option("--bins", spec.bins, "Bins of the coupling splines")->capture_default_str()->group("Network");
  command.add_option("--radial-bins", spec.radial_bins, "Bins of the radial layer (0: none; -1: chosen by the flow)")
      ->capture_default_str()
      ->group("Network");
  command.add_option("--defensive", spec.defensive, "Weight of a wide Student-t component of the proposal")
      ->capture_default_str()
      ->group("Network");
  command.add_option("--precision", spec.precision, "Of the network: float or double; log weights are always double")
      ->capture_default_str()
      ->group("Network");
}

void add_run_options(CLI::App& command, RunOptions& o, uint64_t& seed, int& threads) {
  command.add_option("-o,--output", o.output, "Run folder (default: runs/TARGET)");
  command.add_flag("--overwrite", o.overwrite, "Learn anew where there is a run already");
  command.add_option("--seed", seed, "Seed of everything random")->capture_default_str()->check(at_least(0));
  command.add_option("--threads", threads, "Threads (0: all cores); the draws do not depend on it")
      ->capture_default_str()
      ->check(at_least(0));
  command.add_flag("--json", o.common.json, "Print JSON");
  command.add_flag("-q,--quiet", o.common.quiet, "No progress");
}

void add_target_options(CLI::App& command, RunOptions& o) {
  command.add_option("--data", o.data, "Data of a Stan program, as JSON");
  command.add_option("--stan-toolchain", o.stan_toolchain,
                     "Folder of CmdStan, BridgeStan or an unpacked toolchain (default: $HASTINGS_STAN, or found)");
}

void add_checkpoint_option(CLI::App& command, RunOptions& o) {
  command
      .add_option("--checkpoint-seconds", o.checkpoint_seconds, "How often to store the state; a kill loses no more")
      ->capture_default_str()
      ->check(at_least(0));
}

void add_sample_options(CLI::App& command, RunOptions& o) {
  auto& request = o.sample;
  auto& s = request.options;
  auto* more =
      command.add_option("--more", o.more, "Add so many draws to each chain of a finished run, with its options")
          ->check(at_least(1))
          ->group("Sampling");
  auto* resume =
      command.add_flag("--resume", o.resume, "Go on with the sampling of a run that was killed, with its options")
          ->group("Sampling");
  more->excludes(resume);
  auto option = [&](auto* added) { added->capture_default_str()->group("Sampling")->excludes(more)->excludes(resume); };
  option(command.add_option("--chains", s.chains, "Number of chains"));
  option(command.add_option("--draws", s.draws, "Draws kept, each chain"));
  command
      .add_option("--target-ess", request.target_ess,
                  "Draw until every output has this bulk ESS, after no more learning than that needs (0: --draws)")
      ->capture_default_str()
      ->check(between(0, 1e12))
      ->group("Sampling")
      ->excludes(resume);
  command.add_option("--max-seconds", request.max_seconds, "Most seconds of sampling (0: no limit)")
      ->capture_default_str()
      ->check(at_least(0))
      ->group("Sampling")
      ->excludes(resume);
  option(command.add_option("--warmup", s.warmup, "First steps of each chain, discarded"));
  option(command.add_flag("--save-warmup", request.save_warmup, "Keep them too, in draws.npz"));
  option(command.add_option("--thin", s.thin, "Keep every N-th step"));
  s.local_moves = hastings::LocalMoves::kAuto;
  option(command.add_option_function<std::string>(
      "--local-moves", [&s](const std::string& name) { parse(name, s.local_moves); },
      "Mix in local steps: none, rw, mala, hmc, mixture (random walk inside the proposal), auto "
      "(hmc where independent moves alone would stick)"));
  option(command.add_option("--local-fraction", s.local_fraction,
                            "Share of local steps (auto: at least a half, where it turns to them)"));
  option(command.add_option("--local-step", s.local_step, "Size of local steps in standard deviations (0: tuned)"));
  option(command.add_option("--leapfrog-steps", s.leapfrog_steps, "Leapfrog steps of an hmc move"));
}

int run(int argc, char** argv) {
  CLI::App app{"Learn a proposal for the Metropolis-Hastings algorithm by its acceptance rate, and sample with it."};
  app.require_subcommand(1);
  app.set_version_flag("--version", hastings::version());
  RunOptions options;
  uint64_t seed = 1;
  int threads = 0;
  std::string flow = "auto", folder;

  auto* targets = app.add_subcommand("targets", "List the targets");
  targets->add_flag("--json", options.common.json, "Print JSON");

  auto* fit = app.add_subcommand("fit", "Learn a proposal for a target and store it in a run folder");
  fit->add_option("target", options.target, "A target (see `hastings targets`); with --resume the folder of a run")
      ->required();
  fit->add_flag("--resume", options.resume, "Go on with the learning of a run that was killed, with its options");
  add_run_options(*fit, options, seed, threads);
  add_target_options(*fit, options);
  add_checkpoint_option(*fit, options);
  add_fit_options(*fit, options, flow, false);

  auto* check = app.add_subcommand("check", "Is a density fit to be sampled? Its gradient, batches, support and speed");
  check->add_option("target", options.target, "A target (see `hastings targets`)")->required();
  add_target_options(*check, options);
  check->add_option("--seed", seed, "Seed of the points")->capture_default_str()->check(at_least(0));
  check->add_flag("--json", options.common.json, "Print JSON");
  check->add_flag("-q,--quiet", options.common.quiet, "No progress");

  auto* sample =
      app.add_subcommand("sample", "Sample a target with the proposal of its run; learns it first if there is none");
  sample->add_option("target", options.target, "A target, or the folder of a run")->required();
  add_run_options(*sample, options, seed, threads);
  add_target_options(*sample, options);
  add_checkpoint_option(*sample, options);
  add_sample_options(*sample, options);
  add_fit_options(*sample, options, flow, true);

  std::string format;
  auto* convert = app.add_subcommand("convert", "Write the draws of a run in another format");
  convert->add_option("run", folder, "The folder of a run")->required();
  convert->add_option("--to", format, "csv (Stan CSV), netcdf (ArviZ's InferenceData) or npz (NumPy)")->required();
  convert->add_option("--stan-toolchain", options.stan_toolchain, "As in `sample`");
  convert->add_flag("--json", options.common.json, "Print JSON");

  auto* summary = app.add_subcommand("summary", "Show the summary of a run");
  summary->add_option("run", folder, "The folder of a run")->required();
  summary->add_flag("--json", options.common.json, "Print JSON");

  auto* report = app.add_subcommand("report", "Write one HTML page with tables and plots for a run (needs gnuplot)");
  report->add_option("run", folder, "The folder of a run")->required();
  report->add_option("--stan-toolchain", options.stan_toolchain, "As in `sample`");
  report->add_flag("--json", options.common.json, "Print JSON");

  hastings::reproduce::Options reproduction;
  std::string experiment;
  auto* reproduce = app.add_subcommand(
      "reproduce", "Repeat an experiment of the paper: CSV, Markdown and figures; goes on where it stopped");
  reproduce->add_option("experiment", experiment, "Its name, `all`, or `list` for what there is and what each costs")
      ->required();
  reproduce->add_option("-o,--output", reproduction.output, "Folder of the results")->capture_default_str();
  reproduce
      ->add_option("--seeds", reproduction.seeds,
                   "How many seeds, where several are asked for: table1, exact-filter (default: 5, with --quick 1)")
      ->check(at_least(1));
  reproduce->add_option("--seed", reproduction.first_seed, "The first of them")
      ->capture_default_str()
      ->check(at_least(0));
  reproduce->add_flag("--quick", reproduction.quick, "Small settings: shows that it works, not what it can");
  reproduce
      ->add_option("--only", reproduction.only,
                   "These targets, these methods: `--only ring,mog2,arlb` computes ARLB on two targets")
      ->delimiter(',')
      ->allow_extra_args(false);
  reproduce->add_option("--from", reproduction.from,
                        "A cells.json of an earlier run of the experiment: what is in it is not computed again");
  reproduce->add_option("--threads", reproduction.threads, "Threads (0: all cores)")
      ->capture_default_str()
      ->check(at_least(0));
  reproduce
      ->add_option(
          "--data", reproduction.data,
          "Folder of uci/german.data-numeric, uci/heart.dat, uci/australian.dat (default: $HASTINGS_TEST_DATA)")
      ->envname("HASTINGS_TEST_DATA");
  reproduce->add_flag("-q,--quiet", options.common.quiet, "No progress");

  hastings::app::GanCommands gan(app);
  hastings::app::check_numbers(app);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return hastings::app::fail(2, error.what());
  }
  options.fit.flow.family = flow;
  options.fit.learn.wanted_ess = options.sample.target_ess;  // no more learning than that needs
  options.fit.start.seed = options.fit.learn.seed = options.sample.options.seed = seed;
  options.fit.learn.threads = options.sample.options.threads = threads;
  if (const auto code = gan.run()) return *code;
  if (targets->parsed()) return hastings::app::list_targets_command(options.common);
  if (fit->parsed()) return hastings::app::fit_command(options);
  if (check->parsed()) return hastings::app::check_command(options);
  if (convert->parsed()) return hastings::app::convert_command(folder, format, options);
  if (sample->parsed()) return hastings::app::sample_command(options);
  if (report->parsed()) return hastings::app::report_command(folder, options);
  if (reproduce->parsed()) return hastings::app::reproduce_command(experiment, reproduction, options.common);
  return hastings::app::summary_command(folder, options.common);
}

// A run of many chains has several files open for each.
void raise_open_files() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Learning allocates the same megabytes at every step; given back to the system each time, their pages would be cleared
// and mapped again (a fifth of the time of a step on small networks).
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that is allowed
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
#endif
}

// Runs the command; its errors as a line and a code.
int run_to_the_end(int argc, char** argv) {
  using hastings::app::fail;
  try {
    const int code = run(argc, argv);
    if (code == 0 && hastings::app::interrupted()) return fail(130, "interrupted");
    return code;
  } catch (const std::exception& error) {
    if (hastings::app::interrupted()) {
      const bool known = dynamic_cast<const hastings::Interrupted*>(&error) != nullptr;
      return fail(130, known ? error.what() : "interrupted");
    }
    if (hastings::is_out_of_memory(error)) return fail(5, "out of memory");
    if (const auto* own = dynamic_cast<const hastings::Error*>(&error)) return fail(own->exit_code(), own->what());
    if (const auto* json = dynamic_cast<const nlohmann::json::exception*>(&error))
      return fail(3, fmt::format("a file of the run is damaged: {}", hastings::reason_of(*json)));
    if (dynamic_cast<const std::system_error*>(&error) != nullptr) return fail(3, error.what());
    const std::string text = error.what();
    return fail(1, fmt::format("unexpected error: {}", text.substr(0, text.find('\n'))));
  }
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  raise_open_files();
  const auto asks = [](std::string_view word) {
    return word == "--json" || (word.starts_with("--json=") && word != "--json=false" && word != "--json=0");
  };
  hastings::app::watch_over_the_end(std::any_of(argv + 1, argv + argc, asks));
  return hastings::app::flushed(run_to_the_end(argc, argv));
}
