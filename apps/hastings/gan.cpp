#include "gan.h"

#include "checks.h"
#include "gan_commands.h"
#include "hastings/core/registry.h"
#include "hastings/gan/network/preset.h"

namespace hastings::app {

struct GanCommands::Options : GanOptions {
  std::vector<std::pair<CLI::App*, int (*)(const GanOptions&)>> commands;
};

namespace {

void add_common(CLI::App& command, bool& json, bool& quiet) {
  command.add_flag("--json", json, "Print JSON");
  command.add_flag("-q,--quiet", quiet, "No progress");
}

void add_data_options(CLI::App& command, GanData& data) {
  command.add_option("--crop", data.images.crop, "Crop every image: WIDTHxHEIGHT (centre) or WIDTHxHEIGHT+X+Y")
      ->group("Data");
  command.add_option("--size", data.images.size, "Then resize to N x N (0: as they are)")
      ->capture_default_str()
      ->group("Data");
  command.add_option("--channels", data.images.channels, "1 or 3 (0: as they are)")
      ->capture_default_str()
      ->group("Data");
  command.add_option("--calibrate-images", data.splits.calibrate, "Images kept for calibration, never trained on")
      ->capture_default_str()
      ->group("Data");
  command.add_option("--reference-images", data.splits.reference, "Images kept for scores alone")
      ->capture_default_str()
      ->group("Data");
  command.add_option("--split-seed", data.seed, "Seed of the splits")->capture_default_str()->group("Data");
}

}  // namespace

GanCommands::GanCommands(CLI::App& app) : options_(std::make_unique<Options>()) {
  Options& o = *options_;
  auto* data = app.add_subcommand("data", "Data sets of images");
  data->require_subcommand(1);
  auto* fetch = data->add_subcommand("fetch", "Get a data set");
  fetch->add_option("name", o.data_set, "mnist, cifar10, celeba, or list")->required();
  fetch->add_option("--to", o.to, "Folder (default: data/NAME)");
  fetch->add_option("--from", o.from, "A file you have already (celeba)");
  add_common(*fetch, o.json, o.quiet);

  auto* gan =
      app.add_subcommand("gan", "Train a generator by its acceptance rate; sample a GAN through Metropolis-Hastings");
  gan->require_subcommand(1);
  auto* train = gan->add_subcommand("train", "Train a generator and its discriminator");
  train
      ->add_option("data", o.data.spec,
                   "mnist:FOLDER, cifar10:FOLDER, folder:FOLDER, FILE.npy or FILE.npz; with --resume a run's folder")
      ->required();
  auto& r = o.request;
  train->add_option("-o,--output", o.folder, "Run folder (default: runs/DATA-LOSS)");
  train->add_option("--loss", o.loss, help_of(gan_losses()))->capture_default_str();
  train->add_option("--networks", r.networks, help_of(network_presets()) + ", or a JSON file")->capture_default_str();
  train->add_option("--width", r.width, "Channels of the first stage (mlp: hidden units)")->capture_default_str();
  train->add_option("--latent", r.latent, "Dimension of the latent")->capture_default_str();
  auto* epochs =
      train->add_option("--epochs", r.train.epochs, "Passes over the training images")->capture_default_str();
  train->add_option("--iterations", r.train.iterations, "Steps of the generator (0: by epochs)")
      ->capture_default_str()
      ->excludes(epochs);
  train->add_option("--batch", r.train.batch, "Images a step")->capture_default_str();
  train->add_option("--learning-rate", r.train.learning_rate, "Adam's (0: 2e-4, wgan-gp 1e-4)")->capture_default_str();
  train->add_option("--critic-steps", r.train.critic_steps, "Discriminator steps each iteration (0: 1, wgan-gp 5)")
      ->capture_default_str();
  train->add_option("--grid-every", r.grid_every, "Iterations between grids of samples (0: twenty grids)")
      ->capture_default_str();
  train->add_option("--checkpoint-seconds", r.checkpoint_seconds, "How often to store the state; a kill loses no more")
      ->capture_default_str()
      ->check(at_least(0));
  train->add_option("--seed", r.train.seed, "Seed of weights, latents and batches")->capture_default_str();
  train->add_option("--threads", r.threads, "Threads (0: all cores); training repeats bit for bit with the same number")
      ->capture_default_str()
      ->check(at_least(0));
  train->add_flag("--resume", o.resume, "Go on with a training that was stopped, or on to more --epochs");
  train->add_flag("--overwrite", o.overwrite, "Train anew where there is a run already");
  add_data_options(*train, o.data);
  add_common(*train, o.json, o.quiet);

  auto threads = [&](CLI::App* command) {
    command->add_option("--threads", o.threads, "Threads (0: all cores); the results do not depend on it")
        ->capture_default_str()
        ->check(at_least(0));
  };
  auto* calibrate = gan->add_subcommand(
      "calibrate", "Turn the discriminator's scores into a density ratio, and choose how to sample with it");
  calibrate->add_option("pair", o.pair, "A run's folder, or a JSON file that describes a pair trained elsewhere")
      ->required();
  calibrate->add_option("--data", o.data.spec, "Real images (a trained run knows its own)");
  calibrate->add_option("-o,--output", o.folder, "Run folder for a pair from elsewhere (default: runs/NAME)");
  calibrate->add_option("--weights-folder", o.weights_folder,
                        "Where the pair's files of weights are (default: beside its JSON)");
  auto& k = o.calibration;
  calibrate->add_option("--method", o.calibrated_method, "auto, or " + help_of(calibrators()))->capture_default_str();
  calibrate->add_option("--penalty", k.penalty, "C of the ridge on features, its inverse strength (auto tries several)")
      ->capture_default_str();
  calibrate->add_option("--protocol", o.calibrated_protocol, alternatives(calibrated_protocols()))
      ->capture_default_str();
  calibrate
      ->add_option("--per-output", k.per_output,
                   "Proposals an output; 0: thin a chain by its autocorrelation, to one repeat in twenty")
      ->capture_default_str();
  calibrate
      ->add_option("--witness", o.witness,
                   "A second opinion: a network (JSON layer list with weights) in whose features distances are judged "
                   "and on which ratios may be learned; auto: small classifiers, where the images the run was trained "
                   "on have labels; none: the discriminator alone")
      ->capture_default_str();
  calibrate->add_option("--witness-weights", o.witness_weights, "Its file of weights (default: as the JSON says)");
  calibrate->add_option("--seed", k.seed, "Seed of the trial proposals")->capture_default_str();
  threads(calibrate);
  add_data_options(*calibrate, o.data);
  add_common(*calibrate, o.json, o.quiet);

  auto* sample = gan->add_subcommand("sample", "Sample a calibrated GAN through Metropolis-Hastings");
  sample->add_option("run", o.pair, "The folder of a calibrated run")->required();
  sample->add_option("-n,--outputs", o.filter.outputs, "Images to make")->capture_default_str();
  sample->add_option("--protocol", o.protocol, help_of(protocols()) + " (default: as calibrated)");
  sample->add_option("--per-output", o.filter.per_output, "Proposals an output (default: as calibrated)");
  sample->add_option("-o,--output", o.folder, "Folder of the outputs (default: RUN/outputs-SEED)");
  sample->add_flag("--images", o.pictures, "Also one PNG an output");
  sample->add_option("--seed", o.filter_seed, "Seed of proposals and acceptances")->capture_default_str();
  threads(sample);
  add_common(*sample, o.json, o.quiet);

  auto* compare =
      gan->add_subcommand("compare", "Score plain and filtered samples against reference images, over several seeds");
  compare->add_option("run", o.pair, "The folder of a calibrated run")->required();
  compare->add_option("--features", o.features, "Feature network: a JSON layer list with weights")->required();
  compare->add_option("--feature-weights", o.feature_weights, "Its file of weights (default: as the JSON says)");
  compare->add_option("--data", o.data.spec, "Where the run's data are now (default: where they were)");
  compare->add_option("-n,--outputs", o.comparison.outputs, "Images of each kind and seed")->capture_default_str();
  compare->add_option("--per-output", o.comparison.per_output, "Proposals an output (default: as calibrated)");
  compare->add_option("--seeds", o.comparison.seeds, "How many seeds")->capture_default_str();
  compare->add_option("--seed", o.comparison.first_seed, "The first of them")->capture_default_str();
  compare->add_option("--rivals", o.comparison.rivals,
                      "Other protocols beside plain and the chosen one: rejection, top, restarts ...");
  threads(compare);
  add_common(*compare, o.json, o.quiet);
  o.commands = {{fetch, fetch_command},
                {train, train_command},
                {calibrate, calibrate_command},
                {sample, sample_command},
                {compare, compare_command}};
}

GanCommands::~GanCommands() = default;

std::optional<int> GanCommands::run() {
  Options& o = *options_;
  for (const auto& [command, run] : o.commands) {
    if (!command->parsed()) continue;
    for (const auto* option : command->get_options()) {
      if (option->count() == 0) continue;
      for (const auto& name : option->get_lnames()) o.given.insert(name);
    }
    return run(o);
  }
  return {};
}

}  // namespace hastings::app
