#include "run_options.h"

namespace hastings::app {

void add_toolchain(CLI::App& command, TargetOptions& how, const char* what) {
  command.add_option("--stan-toolchain", how.stan_toolchain, what);
}

void add_target_options(CLI::App& command, TargetRequest& target) {
  command.add_option("--data", target.data, "Data of a Stan program, as JSON");
  add_toolchain(command, target.how,
                "Folder of CmdStan, BridgeStan or an unpacked toolchain (default: $HASTINGS_STAN, or found)");
}

void add_seed(CLI::App& command, uint64_t& seed, const char* of) {
  command.add_option("--seed", seed, of)->capture_default_str()->check(at_least(0));
}

void add_run_options(CLI::App& command, FitRequest& request, Seeds& seeds, Voice& voice) {
  command.add_option("-o,--output", request.output, "Run folder (default: runs/TARGET)");
  command.add_flag("--overwrite", request.overwrite, "Learn anew where there is a run already");
  add_seed(command, seeds.seed, "Seed of everything random");
  command.add_option("--threads", seeds.threads, "Threads (0: all cores); the draws do not depend on it")
      ->capture_default_str()
      ->check(at_least(0));
  add_voice(command, voice);
}

void set_seeds(FitOptions& options, const Seeds& seeds) {
  options.start.seed = options.learn.seed = seeds.seed;
  options.learn.threads = seeds.threads;
}

void add_checkpoint(CLI::App& command, double& seconds) {
  command.add_option("--checkpoint-seconds", seconds, "How often to store the state; a kill loses no more")
      ->capture_default_str()
      ->check(at_least(0));
}

void add_fit_options(CLI::App& command, FitOptions& options, bool sampling) {
  FlowSpec& flow = options.flow;
  LearnOptions& learn = options.learn;
  auto learning = [&](CLI::Option* added) { return added->capture_default_str()->group("Learning"); };
  auto network = [&](CLI::Option* added) { return added->group("Network"); };
  learning(command.add_option("--objective", learn.objective,
                              "What to learn by: ar (acceptance rate), arlb (its lower bound), vi (reverse KL)"));
  learning(
      command.add_option("--flow", flow.family,
                         "Proposal: auto, spline, bend, coupling, realnvp (the paper's), gaussian, gaussian-diagonal"));
  learning(command.add_option("--init", options.start.method,
                              "Start: auto, laplace (modes and curvatures), anneal (tempering), none"));
  learning(
      command.add_option("--start-scale", options.start.scale, "Spread of the first points (0: the target's own)"));
  learning(command.add_option("--max-iterations", learn.max_iterations, "Most learning steps"));
  learning(command.add_option(sampling ? "--max-learn-seconds" : "--max-seconds,--max-learn-seconds", learn.max_seconds,
                              "Most seconds of learning (0: no limit)"))
      ->check(at_least(0));
  learning(command.add_option("--target-acceptance", learn.target_acceptance,
                              "Stop learning at this acceptance rate (0: chosen by the flow)"));
  learning(
      command.add_option("--learning-rate", learn.learning_rate, "Adam's first step size (0: chosen by the flow)"));
  learning(command.add_option("--batch", learn.batch, "Candidates a learning step (0: chosen by the flow)"));
  network(command.add_option("--couplings", flow.couplings, "Coupling layers (0: chosen by the flow)"))
      ->capture_default_str();
  network(command.add_option("--hidden", flow.hidden,
                             "Widths of the hidden layers, e.g. --hidden 64 64 (default: chosen by the flow)"));
  network(command.add_option("--activation", flow.activation, "relu, tanh or silu (default: chosen by the flow)"));
  network(command.add_option("--bins", flow.bins, "Bins of the coupling splines"))->capture_default_str();
  network(command.add_option("--radial-bins", flow.radial_bins,
                             "Bins of the radial layer (0: none; -1: chosen by the flow)"))
      ->capture_default_str();
  network(command.add_option("--defensive", flow.defensive, "Weight of a wide Student-t component of the proposal"))
      ->capture_default_str();
  network(command.add_option("--precision", flow.precision,
                             "Of the network: float or double; log weights are always double"))
      ->capture_default_str();
}

}  // namespace hastings::app
