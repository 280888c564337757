#include "hastings/run/gan_train.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "gan_options.h"
#include "hastings/core/error.h"
#include "hastings/core/registry.h"
#include "hastings/gan/network/preset.h"

namespace hastings::app {
namespace {

struct Options {
  GanTrainRunRequest request;
  std::string loss = "arlb";
  Voice voice;
};

// A training that goes on has its settings from its run.
void refuse_other_training(const std::set<std::string>& given) {
  static const std::set<std::string> free = {"resume",  "output", "epochs", "iterations", "checkpoint-seconds",
                                             "threads", "quiet",  "json"};
  for (const auto& name : given) {
    if (!free.contains(name))
      throw ConfigError(
          fmt::format("--{}: with --resume the run's own is used; only its end (--epochs, --iterations) "
                      "can be changed",
                      name));
  }
}

int run(const Options& o, const std::set<std::string>& given) {
  GanTrainRunRequest request = o.request;
  if (request.resume) refuse_other_training(given);
  request.train.train.loss = parse_loss(o.loss);
  if (given.contains("threads")) request.threads = request.train.threads;
  request.other_end = given.contains("epochs") || given.contains("iterations");
  request.tell = told(o.voice);
  Progress progress(o.voice.quiet);
  const GanTrainOutcome done = gan_train(request, progress);
  progress.done();
  const GanTrained& t = done.trained;
  if (o.voice.json) {
    print_json({{"run", done.run},
                {"iterations", t.iterations},
                {"seconds", t.seconds},
                {"acceptance", t.acceptance},
                {"interrupted", t.interrupted}});
  } else {
    fmt::print(
        "{} at iteration {} after {:.0f} s (loss {}).\nRun folder: {}; samples/ shows how it went, `hastings gan "
        "calibrate {}` is next.\n",
        t.interrupted ? "Stopped" : "Trained", t.iterations, t.seconds, to_string(done.loss), done.run, done.run);
    if (t.interrupted) fmt::print("`hastings gan train {} --resume` goes on.\n", done.run);
  }
  return t.interrupted ? 130 : 0;
}

}  // namespace

Command gan_train_command(CLI::App& gan) {
  auto* command = gan.add_subcommand("train", "Train a generator and its discriminator");
  const auto o = std::make_shared<Options>();
  GanTrainRunRequest& request = o->request;
  GanTrainRequest& r = request.train;
  command
      ->add_option("data", request.data.spec,
                   "mnist:FOLDER, cifar10:FOLDER, folder:FOLDER, FILE.npy or FILE.npz; with --resume a run's folder")
      ->required();
  command->add_option("-o,--output", request.output, "Run folder (default: runs/DATA-LOSS)");
  command->add_option("--loss", o->loss, help_of(gan_losses()))->capture_default_str();
  command->add_option("--networks", r.networks, help_of(network_presets()) + ", or a JSON file")->capture_default_str();
  command->add_option("--width", r.width, "Channels of the first stage (mlp: hidden units)")->capture_default_str();
  command->add_option("--latent", r.latent, "Dimension of the latent")->capture_default_str();
  auto* epochs =
      command->add_option("--epochs", r.train.epochs, "Passes over the training images")->capture_default_str();
  command->add_option("--iterations", r.train.iterations, "Steps of the generator (0: by epochs)")
      ->capture_default_str()
      ->excludes(epochs);
  command->add_option("--batch", r.train.batch, "Images a step")->capture_default_str();
  command->add_option("--learning-rate", r.train.learning_rate, "Adam's (0: 2e-4, wgan-gp 1e-4)")
      ->capture_default_str();
  command->add_option("--critic-steps", r.train.critic_steps, "Discriminator steps each iteration (0: 1, wgan-gp 5)")
      ->capture_default_str();
  command->add_option("--grid-every", r.grid_every, "Iterations between grids of samples (0: twenty grids)")
      ->capture_default_str();
  command
      ->add_option("--checkpoint-seconds", r.checkpoint_seconds, "How often to store the state; a kill loses no more")
      ->capture_default_str()
      ->check(at_least(0));
  command->add_option("--seed", r.train.seed, "Seed of weights, latents and batches")->capture_default_str();
  command
      ->add_option("--threads", r.threads, "Threads (0: all cores); training repeats bit for bit with the same number")
      ->capture_default_str()
      ->check(at_least(0));
  command->add_flag("--resume", request.resume, "Go on with a training that was stopped, or on to more --epochs");
  command->add_flag("--overwrite", request.overwrite, "Train anew where there is a run already");
  add_data_options(*command, request.data);
  add_voice(*command, o->voice);
  return {command, [o, command] { return run(*o, given(*command)); }};
}

}  // namespace hastings::app
