#include "gan.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/data/fetch.h"
#include "hastings/gan/choose.h"
#include "hastings/gan/gan_run.h"
#include "hastings/gan/sample.h"
#include "hastings/io/npz.h"
#include "hastings/report/figure.h"
#include "hastings/score/compare.h"
#include "progress.h"

namespace hastings::app {

using nlohmann::json;
namespace fs = std::filesystem;

struct GanCommands::Options {
  bool json = false, quiet = false;
  CLI::App *fetch = nullptr, *train = nullptr, *calibrate = nullptr, *sample = nullptr, *compare = nullptr;
  // data fetch
  std::string data_set, to, from;
  // all of gan
  GanData data;
  std::string folder, run;
  // train
  GanTrainRequest request;
  bool resume = false, overwrite = false;
  // calibrate
  std::string pair, weights_folder;
  CalibrateOptions calibration;
  // sample
  FilterOptions filter;
  bool pictures = false;
  int threads = 0;
  // compare
  CompareOptions comparison;
  std::string features, feature_weights;
};

namespace {

using Options = GanCommands::Options;

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

int fetch_command(const std::string& name, const std::string& to, const std::string& from, bool as_json, bool quiet) {
  if (name == "list") {
    for (const auto& s : fetchable()) fmt::print("{:10} {}\n", s.name, s.what);
    return 0;
  }
  const std::string folder = to.empty() ? "data/" + name : to;
  const std::string spec = fetch_data(name, folder, from, [&](const std::string& line) {
    if (!quiet) fmt::print(stderr, "{}\n", line);
  });
  if (as_json) {
    fmt::print("{}\n", json{{"data", spec}}.dump());
  } else {
    fmt::print("Ready: --data {}\n", spec);
  }
  return 0;
}

void tell_splits(const SplitImages& images, bool quiet) {
  if (quiet) return;
  const auto& s = images.splits;
  fmt::print(stderr, "{}: {} images of {}x{}x{}; {} to train, {} to calibrate, {} for scores.\n", images.data.spec,
             images.images.pixels.size(0), images.images.pixels.size(1), images.images.pixels.size(2),
             images.images.pixels.size(3), s.train.size(), s.calibrate.size(), s.reference.size());
  if (images.copies > 0)
    fmt::print(stderr, "hastings: warning: {} held-out images have an exact copy in another part of the data.\n",
               images.copies);
}

int train_command(GanData data, GanTrainRequest request, std::string folder, bool resume, bool overwrite, bool as_json,
                  bool quiet, bool new_end) {
  SplitImages images;
  if (resume) {
    const GanTrainRequest asked = request;
    if (folder.empty()) folder = data.spec;
    request = stored_gan_request(folder);
    request.checkpoint_seconds = asked.checkpoint_seconds;
    if (new_end) {
      request.train.epochs = asked.train.epochs;
      request.train.iterations = asked.train.iterations;
    }
    images = load_splits(folder);
  } else {
    if (folder.empty()) {
      const std::string name = data.spec.substr(0, data.spec.find(':'));
      folder = fmt::format("runs/{}-{}", fs::path(name).stem().string(), request.train.loss);
    }
    if (fs::exists(folder) && !fs::is_empty(folder)) {
      if (!overwrite)
        throw ConfigError(fmt::format("{}: is there already; use --resume, --overwrite, or another --output", folder));
      if (!is_gan_run(folder) && !fs::exists(fs::path(folder) / "splits.json"))
        throw ConfigError(fmt::format("{}: is not a GAN's run; it is not overwritten", folder));
      fs::remove_all(folder);
    }
    images = load_split_images(data);
  }
  tell_splits(images, quiet);
  Progress progress(quiet);
  const GanTrained done = train_gan(folder, images, request, resume, progress);
  progress.done();
  if (as_json) {
    fmt::print("{}\n", json{{"run", folder},
                            {"iterations", done.iterations},
                            {"seconds", done.seconds},
                            {"acceptance", done.acceptance},
                            {"interrupted", done.interrupted}}
                           .dump(2));
  } else {
    fmt::print(
        "{} at iteration {} after {:.0f} s (loss {}).\nRun folder: {}; samples/ shows how it went, `hastings gan "
        "calibrate {}` is next.\n",
        done.interrupted ? "Stopped" : "Trained", done.iterations, done.seconds, request.train.loss, folder, folder);
    if (done.interrupted) fmt::print("`hastings gan train {} --resume` goes on.\n", folder);
  }
  return done.interrupted ? 130 : 0;
}

// A run, or a pair from elsewhere that becomes one.
struct OpenedRun {
  std::string folder;
  Pair pair;
};

OpenedRun open_run(const std::string& given, const std::string& weights_folder, const std::string& output) {
  if (fs::is_directory(given)) {
    if (!is_gan_run(given)) throw ConfigError(fmt::format("{}: is not a GAN's run (no pair.json)", given));
    if (!output.empty()) throw ConfigError("--output: a run is calibrated where it is");
    return {given, load_pair((fs::path(given) / "pair.json").string())};
  }
  if (!fs::exists(given))
    throw ConfigError(fmt::format("{}: is neither a run's folder nor a file that describes a pair", given));
  OpenedRun out{output.empty() ? "runs/" + fs::path(given).stem().string() : output, load_pair(given, weights_folder)};
  import_pair(out.folder, out.pair, weights_folder.empty() ? fs::path(given).parent_path().string() : weights_folder);
  return out;
}

void check_image_shape(const SplitImages& images, const Pair& pair) {
  const auto& p = images.images.pixels;
  if (p.sizes().slice(1) != at::IntArrayRef(pair.image))
    throw ConfigError(fmt::format("{}: images of {}x{}x{}, the networks are for {}x{}x{} (--size, --crop, --channels)",
                                  images.data.spec, p.size(1), p.size(2), p.size(3), pair.image[0], pair.image[1],
                                  pair.image[2]));
}

void reliability_figure(const std::string& stem, const ChosenCalibration& c) {
  auto layer = [](const CalibrationQuality& q, const char* title, int color) {
    PlotLayer l;
    l.draw = Draw::kErrors;
    l.title = title;
    l.columns = {q.curve_predicted, q.curve_observed, q.curve_error};
    l.color = color;
    return l;
  };
  Panel panel;
  panel.title = "Held-out reliability";
  panel.x_label = "predicted probability of being real";
  panel.y_label = "share of real images";
  panel.x_range = panel.y_range = std::array<double, 2>{0, 1};
  panel.key = "top left";
  PlotLayer diagonal;
  diagonal.columns = {{0, 1}, {0, 1}};
  diagonal.color = -1;
  diagonal.dashed = true;
  panel.layers = {diagonal, layer(c.raw_quality, "raw logits", 1), layer(c.quality, "calibrated", 0)};
  Figure figure;
  figure.panels = {panel};
  write_figure(stem, figure);
}

void print_calibration(const ChosenCalibration& c) {
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

int calibrate_command(const Options& o, bool data_given) {
  o.calibration.validate();
  OpenedRun run = open_run(o.pair, o.weights_folder, o.folder);
  SplitImages images;
  if (fs::exists(fs::path(run.folder) / "splits.json")) {
    images = load_splits(run.folder, data_given && fs::is_directory(o.pair) ? o.data.spec : "");
  } else {
    if (!data_given)
      throw ConfigError("--data: name the images the networks were trained to make (mnist:FOLDER, folder:FOLDER ...)");
    GanData data = o.data;
    data.splits.train = false;
    images = load_split_images(data);
    save_splits(run.folder, images);
  }
  tell_splits(images, o.quiet);
  check_image_shape(images, run.pair);
  CalibrateOptions calibration = o.calibration;
  calibration.threads = o.threads;
  std::optional<FeatureNetwork> judge;
  if (!o.features.empty()) {
    judge.emplace(o.features, o.feature_weights);
    calibration.features = [&](const Tensor& pixels) { return (*judge)(pixels, o.threads); };
    calibration.space = judge->name();
  }
  Progress progress(o.quiet);
  const ChosenCalibration c = choose_calibration(run.pair, images.part(images.splits.calibrate), calibration, progress);
  progress.done();
  save_calibration(run.folder, c);
  std::string figure = (fs::path(run.folder) / "reliability").string();
  try {
    reliability_figure(figure, c);
    figure += ".png";
  } catch (const ConfigError&) {
    figure.clear();  // no gnuplot
  }
  for (const auto& w : c.warnings) progress.on_warning(w);
  if (o.json) {  // what was stored, without its long lists
    json stored = json::parse(read_file((fs::path(run.folder) / "calibration.json").string()));
    for (const char* key : {"knots", "values", "trials"}) stored.erase(key);
    stored["run"] = run.folder;
    fmt::print("{}\n", stored.dump(2));
  } else {
    print_calibration(c);
    fmt::print("Run folder: {}; `hastings gan sample {}` is next.\n", run.folder, run.folder);
  }
  return 0;
}

// Appends raw bytes, NHWC.
void append_pictures(std::FILE* file, const std::string& path, const Tensor& images) {
  const Tensor rows = images.permute({0, 2, 3, 1}).contiguous();
  if (std::fwrite(rows.data_ptr(), 1, static_cast<size_t>(rows.numel()), file) != static_cast<size_t>(rows.numel()))
    throw DataError(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
}

int sample_command(const Options& o, bool protocol_given, bool per_output_given) {
  const OpenedRun run = open_run(o.pair, "", "");
  const ChosenCalibration chosen = load_calibration(run.folder);
  FilterOptions f = o.filter;
  if (!protocol_given) f.protocol = chosen.protocol;
  if (!per_output_given) f.per_output = chosen.per_output;
  f.validate();
  const std::string folder =
      o.folder.empty() ? (fs::path(run.folder) / fmt::format("outputs-{}", f.seed)).string() : o.folder;
  const std::string scratch = folder + ".writing";
  fs::remove_all(scratch);
  make_directory(scratch);
  Progress progress(o.quiet);
  const Proposals proposals(run.pair, f.seed, o.threads);
  const GanSamples got = filter_proposals(proposals, chosen, {f}, progress).front();
  progress.done();
  const auto begin = std::chrono::steady_clock::now();
  const std::string raw = scratch + "/pixels.raw";
  const auto n = static_cast<int64_t>(got.filtered.chosen.size());
  {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(raw.c_str(), "wb"), std::fclose);
    if (!file) throw DataError(fmt::format("{}: cannot be written: {}", raw, std::strerror(errno)));
    if (o.pictures) make_directory(scratch + "/images");
    constexpr int64_t kChunk = 5000;
    for (int64_t from = 0; from < n; from += kChunk) {
      if (progress.should_stop()) throw Interrupted("interrupted while rendering");
      const auto first = got.filtered.chosen.begin() + from,
                 last = got.filtered.chosen.begin() + std::min(from + kChunk, n);
      const Tensor images = proposals.render({first, last});
      append_pictures(file.get(), raw, images);
      if (from == 0) write_png(scratch + "/grid.png", image_grid(images.narrow(0, 0, std::min<int64_t>(n, 100)), 10));
      for (int64_t i = 0; o.pictures && i < images.size(0); ++i)
        write_png(fmt::format("{}/images/{:07}.png", scratch, from + i), images[i]);
    }
    if (std::fflush(file.get()) != 0)
      throw DataError(fmt::format("{}: cannot be written: {}", raw, std::strerror(errno)));
  }
  write_npz(scratch + "/samples.npz",
            {{"arr_0", {n, run.pair.image[1], run.pair.image[2], run.pair.image[0]}, {raw}, "|u1"}});
  fs::remove(raw);
  const double render = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const Filtered& r = got.filtered;
  const json facts = {{"run", run.folder},
                      {"output", folder},
                      {"protocol", f.protocol},
                      {"calibration", f.protocol == "plain" ? "" : chosen.calibration.method},
                      {"outputs", n},
                      {"per_output", f.per_output},
                      {"proposals", f.protocol == "plain" ? n : r.proposals},
                      {"acceptance", f.protocol == "plain" ? json() : json(r.acceptance)},
                      {"unique", r.unique},
                      {"longest_run", r.longest_run},
                      {"stuck_starts", r.stuck},
                      {"non_finite", r.non_finite},
                      {"seed", f.seed},
                      {"score_seconds", got.network_seconds},
                      {"filter_seconds", got.other_seconds},
                      {"render_seconds", render},
                      {"warnings", got.warnings}};
  write_file(scratch + "/sampling.json", facts.dump(2) + "\n");
  fs::remove_all(folder);
  fs::rename(scratch, folder);
  for (const auto& w : got.warnings) progress.on_warning(w);
  if (o.json) {
    fmt::print("{}\n", facts.dump(2));
  } else {
    fmt::print("{} outputs by {}: {} proposals, ", n, f.protocol, facts["proposals"].get<int64_t>());
    if (f.protocol != "plain")
      fmt::print("acceptance {:.3f}, {:.1f} % different, longest run {}, ", r.acceptance, 100 * r.unique,
                 r.longest_run);
    fmt::print("{:.1f} s in the networks, {:.2f} s in the filter, {:.1f} s rendering.\n", got.network_seconds,
               got.other_seconds, render);
    fmt::print("{}: samples.npz (arr_0, uint8, NHWC), grid.png{}, sampling.json.\n", folder,
               o.pictures ? ", images/" : "");
  }
  return 0;
}

int compare_command(const Options& o, bool per_output_given) {
  const OpenedRun run = open_run(o.pair, "", "");
  const ChosenCalibration chosen = load_calibration(run.folder);
  CompareOptions c = o.comparison;
  if (!per_output_given) c.per_output = chosen.per_output;
  c.threads = o.threads;
  const FeatureNetwork features(o.features, o.feature_weights);
  const SplitImages images = load_splits(run.folder, o.data.spec);
  Progress progress(o.quiet);
  const std::string folder = (fs::path(run.folder) / "compare").string();
  const Comparison got = compare_gan(folder, run.pair, chosen, images, features, c, progress);
  progress.done();
  for (const auto& w : got.warnings) progress.on_warning(w);
  const std::string table = comparison_markdown(got, c);
  write_file(folder + "/table.md", table);
  if (o.json) {
    json rows = json::array();
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
    fmt::print("{}\n", json{{"features", got.features}, {"real", got.real}, {"rows", rows}}.dump(2));
  } else {
    fmt::print("{}", table);
  }
  return 0;
}

}  // namespace

GanCommands::GanCommands(CLI::App& app) : options_(std::make_unique<Options>()) {
  Options& o = *options_;
  auto* data = app.add_subcommand("data", "Data sets of images");
  data->require_subcommand(1);
  o.fetch = data->add_subcommand("fetch", "Get a data set");
  o.fetch->add_option("name", o.data_set, "mnist, cifar10, celeba, or list")->required();
  o.fetch->add_option("--to", o.to, "Folder (default: data/NAME)");
  o.fetch->add_option("--from", o.from, "A file you have already (celeba)");
  add_common(*o.fetch, o.json, o.quiet);

  auto* gan =
      app.add_subcommand("gan", "Train a generator by its acceptance rate; sample a GAN through Metropolis-Hastings");
  gan->require_subcommand(1);
  o.train = gan->add_subcommand("train", "Train a generator and its discriminator");
  o.train
      ->add_option("data", o.data.spec,
                   "mnist:FOLDER, cifar10:FOLDER, folder:FOLDER, FILE.npy or FILE.npz; with --resume a run's folder")
      ->required();
  auto& r = o.request;
  o.train->add_option("-o,--output", o.folder, "Run folder (default: runs/DATA-LOSS)");
  o.train->add_option("--loss", r.train.loss, "ar, arlb (acceptance rate and its bound), dcgan, wgan-gp")
      ->capture_default_str();
  o.train->add_option("--networks", r.networks, "dcgan, wgan-gp (no batch norm in the critic), mlp, or a JSON file")
      ->capture_default_str();
  o.train->add_option("--width", r.width, "Channels of the first stage (mlp: hidden units)")->capture_default_str();
  o.train->add_option("--latent", r.latent, "Dimension of the latent")->capture_default_str();
  auto* epochs =
      o.train->add_option("--epochs", r.train.epochs, "Passes over the training images")->capture_default_str();
  o.train->add_option("--iterations", r.train.iterations, "Steps of the generator (0: by epochs)")
      ->capture_default_str()
      ->excludes(epochs);
  o.train->add_option("--batch", r.train.batch, "Images a step")->capture_default_str();
  o.train->add_option("--learning-rate", r.train.learning_rate, "Adam's (0: 2e-4, wgan-gp 1e-4)")
      ->capture_default_str();
  o.train->add_option("--critic-steps", r.train.critic_steps, "Discriminator steps each iteration (0: 1, wgan-gp 5)")
      ->capture_default_str();
  o.train->add_option("--grid-every", r.grid_every, "Iterations between grids of samples (0: twenty grids)")
      ->capture_default_str();
  o.train
      ->add_option("--checkpoint-seconds", r.checkpoint_seconds, "How often to store the state; a kill loses no more")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  o.train->add_option("--seed", r.train.seed, "Seed of weights, latents and batches")->capture_default_str();
  o.train
      ->add_option("--threads", r.threads, "Threads (0: all cores); training repeats bit for bit with the same number")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  o.train->add_flag("--resume", o.resume, "Go on with a training that was stopped, or on to more --epochs");
  o.train->add_flag("--overwrite", o.overwrite, "Train anew where there is a run already");
  add_data_options(*o.train, o.data);
  add_common(*o.train, o.json, o.quiet);

  auto threads = [&](CLI::App* command) {
    command->add_option("--threads", o.threads, "Threads (0: all cores); the results do not depend on it")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
  };
  o.calibrate = gan->add_subcommand(
      "calibrate", "Turn the discriminator's scores into a density ratio, and choose how to sample with it");
  o.calibrate->add_option("pair", o.pair, "A run's folder, or a JSON file that describes a pair trained elsewhere")
      ->required();
  o.calibrate->add_option("--data", o.data.spec, "Real images (a trained run knows its own)");
  o.calibrate->add_option("-o,--output", o.folder, "Run folder for a pair from elsewhere (default: runs/NAME)");
  o.calibrate->add_option("--weights-folder", o.weights_folder,
                          "Where the pair's files of weights are (default: beside its JSON)");
  auto& k = o.calibration;
  o.calibrate
      ->add_option("--method", k.method,
                   "auto, none, platt, beta, isotonic, head (last layer reset), refit (last layer refined)")
      ->capture_default_str();
  o.calibrate->add_option("--penalty", k.penalty, "C of head and refit, the inverse ridge (auto tries several)")
      ->capture_default_str();
  o.calibrate->add_option("--protocol", k.protocol, "auto, chain, restarts, generated, plain")->capture_default_str();
  o.calibrate->add_option("--per-output", k.per_output, "Proposals an output")->capture_default_str();
  o.calibrate->add_option(
      "--features", o.features,
      "Judge distances in the features of this network, a JSON layer list with weights (default: in "
      "the discriminator's own)");
  o.calibrate->add_option("--feature-weights", o.feature_weights, "Its file of weights (default: as the JSON says)");
  o.calibrate->add_option("--seed", k.seed, "Seed of the trial proposals")->capture_default_str();
  threads(o.calibrate);
  add_data_options(*o.calibrate, o.data);
  add_common(*o.calibrate, o.json, o.quiet);

  o.sample = gan->add_subcommand("sample", "Sample a calibrated GAN through Metropolis-Hastings");
  o.sample->add_option("run", o.pair, "The folder of a calibrated run")->required();
  o.sample->add_option("-n,--outputs", o.filter.outputs, "Images to make")->capture_default_str();
  o.sample->add_option("--protocol", o.filter.protocol,
                       "chain, restarts, generated, or a rival: plain, rejection, top (default: as calibrated)");
  o.sample->add_option("--per-output", o.filter.per_output, "Proposals an output (default: as calibrated)");
  o.sample->add_option("-o,--output", o.folder, "Folder of the outputs (default: RUN/outputs-SEED)");
  o.sample->add_flag("--images", o.pictures, "Also one PNG an output");
  o.sample->add_option("--seed", o.filter.seed, "Seed of proposals and acceptances")->capture_default_str();
  threads(o.sample);
  add_common(*o.sample, o.json, o.quiet);

  o.compare =
      gan->add_subcommand("compare", "Score plain and filtered samples against reference images, over several seeds");
  o.compare->add_option("run", o.pair, "The folder of a calibrated run")->required();
  o.compare->add_option("--features", o.features, "Feature network: a JSON layer list with weights")->required();
  o.compare->add_option("--feature-weights", o.feature_weights, "Its file of weights (default: as the JSON says)");
  o.compare->add_option("--data", o.data.spec, "Where the run's data are now (default: where they were)");
  o.compare->add_option("-n,--outputs", o.comparison.outputs, "Images of each kind and seed")->capture_default_str();
  o.compare->add_option("--per-output", o.comparison.per_output, "Proposals an output (default: as calibrated)");
  o.compare->add_option("--seeds", o.comparison.seeds, "How many seeds")->capture_default_str();
  o.compare->add_option("--seed", o.comparison.first_seed, "The first of them")->capture_default_str();
  o.compare->add_option("--rivals", o.comparison.rivals,
                        "Other protocols beside plain and the chosen one: rejection, top, restarts ...");
  threads(o.compare);
  add_common(*o.compare, o.json, o.quiet);
}

GanCommands::~GanCommands() = default;

std::optional<int> GanCommands::run() const {
  const Options& o = *options_;
  if (o.fetch->parsed()) return fetch_command(o.data_set, o.to, o.from, o.json, o.quiet);
  if (o.train->parsed())
    return train_command(o.data, o.request, o.folder, o.resume, o.overwrite, o.json, o.quiet,
                         o.train->count("--epochs") + o.train->count("--iterations") > 0);
  if (o.calibrate->parsed()) return calibrate_command(o, o.calibrate->count("--data") > 0);
  if (o.sample->parsed())
    return sample_command(o, o.sample->count("--protocol") > 0, o.sample->count("--per-output") > 0);
  if (o.compare->parsed()) return compare_command(o, o.compare->count("--per-output") > 0);
  return {};
}

}  // namespace hastings::app
