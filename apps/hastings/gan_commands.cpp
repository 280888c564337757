#include "gan_commands.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "guard.h"
#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/core/json.h"
#include "hastings/core/output_folder.h"
#include "hastings/data/fetch.h"
#include "hastings/io/npz.h"
#include "hastings/report/figure.h"
#include "progress.h"

namespace hastings::app {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

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

constexpr auto kGoOn = OutputFolder::Use::kGoOn;

Pair pair_of_run(const std::string& folder) {
  if (!fs::is_directory(folder)) throw ConfigError(fmt::format("{}: is neither a run's folder nor a pair", folder));
  if (!is_gan_run(folder)) throw ConfigError(fmt::format("{}: is not a GAN's run (no pair.json)", folder));
  return load_pair((fs::path(folder) / "pair.json").string());
}

// A run that is written, or a pair from elsewhere that becomes one.
struct OpenedRun {
  std::unique_ptr<OutputFolder> folder;
  Pair pair;
};

OpenedRun open_run(const std::string& given, const std::string& weights_folder, const std::string& output) {
  if (fs::is_directory(given)) {
    if (!output.empty()) throw ConfigError("--output: a run is calibrated where it is");
    Pair pair = pair_of_run(given);
    return {std::make_unique<OutputFolder>(given, FolderKind::kGan, kGoOn), std::move(pair)};
  }
  if (!fs::exists(given))
    throw ConfigError(fmt::format("{}: is neither a run's folder nor a file that describes a pair", given));
  Pair pair = load_pair(given, weights_folder);
  const std::string folder = output.empty() ? "runs/" + fs::path(given).stem().string() : output;
  OpenedRun out{std::make_unique<OutputFolder>(folder, FolderKind::kGan), std::move(pair)};
  if (fs::exists(fs::path(folder) / "config.json"))
    throw ConfigError(fmt::format("{}: holds networks that were trained there; give another --output", folder));
  import_pair(*out.folder, out.pair, weights_folder.empty() ? fs::path(given).parent_path().string() : weights_folder);
  return out;
}

void check_image_shape(const SplitImages& images, const Pair& pair) {
  const auto& p = images.images.pixels;
  if (p.sizes().slice(1) != at::IntArrayRef(pair.image))
    throw ConfigError(fmt::format("{}: images of {}x{}x{}, the networks are for {}x{}x{} (--size, --crop, --channels)",
                                  images.data.spec, p.size(1), p.size(2), p.size(3), pair.image[0], pair.image[1],
                                  pair.image[2]));
}

void reliability_figure(OutputFolder& folder, const ChosenCalibration& c) {
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
  write_figure(folder, "reliability", figure);
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

// Appends raw bytes, NHWC.
void append_pictures(std::FILE* file, const std::string& path, const Tensor& images) {
  const Tensor rows = images.permute({0, 2, 3, 1}).contiguous();
  if (std::fwrite(rows.data_ptr(), 1, static_cast<size_t>(rows.numel()), file) != static_cast<size_t>(rows.numel()))
    throw DataError(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
}

// A training that goes on has its settings from its run.
void refuse_other_training(const GanOptions& o) {
  const std::set<std::string> free = {"resume",  "output", "epochs", "iterations", "checkpoint-seconds",
                                      "threads", "quiet",  "json"};
  for (const auto& name : o.given) {
    if (!free.contains(name))
      throw ConfigError(
          fmt::format("--{}: with --resume the run's own is used; only its end (--epochs, --iterations) "
                      "can be changed",
                      name));
  }
}

// A run's images are split once.
void refuse_other_splits(const GanOptions& o, const GanData& stored) {
  const GanData& d = o.data;
  const std::pair<const char*, bool> same[] = {{"crop", d.images.crop == stored.images.crop},
                                               {"size", d.images.size == stored.images.size},
                                               {"channels", d.images.channels == stored.images.channels},
                                               {"calibrate-images", d.splits.calibrate == stored.splits.calibrate},
                                               {"reference-images", d.splits.reference == stored.splits.reference},
                                               {"split-seed", d.seed == stored.seed}};
  for (const auto& [name, is] : same) {
    if (o.given.contains(name) && !is)
      throw ConfigError(
          fmt::format("--{}: the run's images are split already, with another value (splits.json)", name));
  }
}

}  // namespace

int fetch_command(const GanOptions& o) {
  if (o.data_set == "list") {
    json list = json::array();
    for (const auto& s : fetchable()) list.push_back({{"name", s.name}, {"what", s.what}});
    if (o.json) {
      print_json(list);
      return 0;
    }
    for (const auto& s : fetchable()) fmt::print("{:10} {}\n", s.name, s.what);
    return 0;
  }
  const std::string folder = o.to.empty() ? "data/" + o.data_set : o.to;
  const std::string spec = fetch_data(o.data_set, folder, o.from, [&](const std::string& line) {
    if (!o.quiet) fmt::print(stderr, "{}\n", line);
  });
  if (o.json) {
    print_json({{"data", spec}}, -1);
  } else {
    fmt::print("Ready: --data {}\n", spec);
  }
  return 0;
}

int train_command(const GanOptions& o) {
  SplitImages images;
  std::string folder = o.folder;
  GanTrainRequest request = o.request;
  request.train.loss = parse_loss(o.loss);
  std::unique_ptr<OutputFolder> out;
  if (o.resume) {
    if (folder.empty()) folder = o.data.spec;
    refuse_other_training(o);
    if (!fs::exists(fs::path(folder) / "config.json"))
      throw ConfigError(fmt::format("{}: holds no training to resume", folder));
    out = std::make_unique<OutputFolder>(folder, FolderKind::kGan, kGoOn);
    request = stored_gan_request(folder);
    request.checkpoint_seconds = o.request.checkpoint_seconds;
    if (o.given.contains("threads")) request.threads = o.request.threads;
    if (o.given.contains("epochs") || o.given.contains("iterations")) {
      request.train.epochs = o.request.train.epochs;
      request.train.iterations = o.request.train.iterations;
    }
    images = load_splits(folder);
  } else {
    if (folder.empty()) {
      const std::string name = o.data.spec.substr(0, o.data.spec.find(':'));
      folder = fmt::format("runs/{}-{}", fs::path(name).stem().string(), o.loss);
    }
    const bool begun = fs::exists(fs::path(folder) / "config.json") || is_gan_run(folder);
    if (is_output_folder(folder, FolderKind::kGan) && begun && !o.overwrite)
      throw ConfigError(fmt::format("{}: is there already; use --resume, --overwrite, or another --output", folder));
    request.train.validate();
    out = std::make_unique<OutputFolder>(folder, FolderKind::kGan);
    images = load_split_images(o.data);
  }
  tell_splits(images, o.quiet);
  Progress progress(o.quiet);
  const GanTrained done = train_gan(*out, images, request, o.resume, progress);
  progress.done();
  if (o.json) {
    print_json({{"run", folder},
                {"iterations", done.iterations},
                {"seconds", done.seconds},
                {"acceptance", done.acceptance},
                {"interrupted", done.interrupted}});
  } else {
    fmt::print(
        "{} at iteration {} after {:.0f} s (loss {}).\nRun folder: {}; samples/ shows how it went, `hastings gan "
        "calibrate {}` is next.\n",
        done.interrupted ? "Stopped" : "Trained", done.iterations, done.seconds, to_string(request.train.loss), folder,
        folder);
    if (done.interrupted) fmt::print("`hastings gan train {} --resume` goes on.\n", folder);
  }
  return done.interrupted ? 130 : 0;
}

int calibrate_command(const GanOptions& o) {
  CalibrateOptions calibration = o.calibration;
  calibration.method = parse_calibrated_method(o.calibrated_method);
  calibration.protocol = parse_calibrated_protocol(o.calibrated_protocol);
  calibration.validate();
  OpenedRun run = open_run(o.pair, o.weights_folder, o.folder);
  const std::string& folder = run.folder->path();
  SplitImages images;
  if (fs::exists(fs::path(folder) / "splits.json")) {
    images = load_splits(folder, o.given.contains("data") ? o.data.spec : "");
    refuse_other_splits(o, images.data);
  } else {
    if (!o.given.contains("data"))
      throw ConfigError("--data: name the images the networks were trained to make (mnist:FOLDER, folder:FOLDER ...)");
    GanData data = o.data;
    data.splits.train = false;
    images = load_split_images(data);
    save_splits(*run.folder, images);
  }
  tell_splits(images, o.quiet);
  check_image_shape(images, run.pair);
  calibration.threads = o.threads;
  Progress progress(o.quiet);
  if (o.witness == "auto") {
    calibration.witness = run_classifiers(*run.folder, images, o.threads, progress);
  } else if (o.witness != "none") {
    calibration.witness = std::make_shared<FeatureNetwork>(o.witness, o.witness_weights);
  }
  const ChosenCalibration c = choose_calibration(run.pair, images.part(images.splits.calibrate), calibration, progress);
  progress.done();
  save_calibration(*run.folder, c);
  try {
    reliability_figure(*run.folder, c);
  } catch (const ConfigError&) {  // no gnuplot
  }
  for (const auto& w : c.warnings) progress.on_warning(w);
  if (o.json) {  // what was stored, without its long lists
    json stored = read_json((fs::path(folder) / "calibration.json").string());
    for (const char* key : {"knots", "values", "trials"}) stored.erase(key);
    stored["run"] = folder;
    print_json(stored);
  } else {
    print_calibration(c);
    fmt::print("Run folder: {}; `hastings gan sample {}` is next.\n", folder, folder);
  }
  return 0;
}

int sample_command(const GanOptions& o) {
  const Pair pair = pair_of_run(o.pair);
  const ChosenCalibration chosen = load_calibration(o.pair);
  FilterOptions f = o.filter;
  f.protocol = o.given.contains("protocol") ? parse_protocol(o.protocol) : chosen.protocol;
  if (!o.given.contains("per-output")) f.per_output = chosen.per_output;
  f.validate();
  const std::string folder =
      o.folder.empty() ? (fs::path(o.pair) / fmt::format("outputs-{}", o.filter_seed)).string() : o.folder;
  OutputFolder out(folder, FolderKind::kSamples);
  const ScratchFolder scratch(out, ".writing");
  Progress progress(o.quiet);
  const Proposals proposals(pair, o.filter_seed, Phase::kGanSample, o.threads);
  const GanSamples got = filter_proposals(proposals, chosen, {f}, {o.filter_seed, Phase::kGanFilter}, progress).front();
  progress.done();
  const auto begin = std::chrono::steady_clock::now();
  const std::string raw = scratch.path() + "/pixels.raw";
  const auto n = static_cast<int64_t>(got.filtered.chosen.size());
  std::vector<std::string> files = {"samples.npz", "grid.png"};
  {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(raw.c_str(), "wb"), std::fclose);
    if (!file) throw DataError(fmt::format("{}: cannot be written: {}", raw, std::strerror(errno)));
    if (o.pictures) make_directory(scratch.path() + "/images");
    constexpr int64_t kChunk = 5000;
    for (int64_t from = 0; from < n; from += kChunk) {
      if (progress.should_stop()) throw Interrupted("interrupted while rendering");
      out.check();
      const auto first = got.filtered.chosen.begin() + from,
                 last = got.filtered.chosen.begin() + std::min(from + kChunk, n);
      const Tensor images = proposals.render({first, last});
      append_pictures(file.get(), raw, images);
      if (from == 0)
        write_png(scratch.path() + "/grid.png", image_grid(images.narrow(0, 0, std::min<int64_t>(n, 100)), 10));
      for (int64_t i = 0; o.pictures && i < images.size(0); ++i) {
        files.push_back(fmt::format("images/{:07}.png", from + i));
        write_png(scratch.path() + "/" + files.back(), images[i]);
      }
    }
    if (std::fflush(file.get()) != 0)
      throw DataError(fmt::format("{}: cannot be written: {}", raw, std::strerror(errno)));
  }
  write_npz(scratch.path() + "/samples.npz",
            {{"arr_0", {n, pair.image[1], pair.image[2], pair.image[0]}, {raw}, "|u1"}});
  const double render = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const Filtered& r = got.filtered;
  const bool plain = f.protocol == ProtocolKind::kPlain;
  const json facts = {{"run", o.pair},
                      {"output", folder},
                      {"protocol", to_string(f.protocol)},
                      {"calibration", plain ? "" : to_string(chosen.calibration.method)},
                      {"outputs", n},
                      {"per_output", f.per_output},
                      {"proposals", plain ? n : r.proposals},
                      {"acceptance", plain ? json() : json(r.acceptance)},
                      {"unique", r.unique},
                      {"longest_run", r.longest_run},
                      {"stuck_starts", r.stuck},
                      {"non_finite", r.non_finite},
                      {"seed", o.filter_seed},
                      {"score_seconds", got.network_seconds},
                      {"filter_seconds", got.other_seconds},
                      {"render_seconds", render},
                      {"warnings", got.warnings}};
  write_file(scratch.path() + "/sampling.json", facts.dump(2) + "\n");
  files.push_back("sampling.json");  // last: with it the samples are complete, and without it they are not
  out.remove("sampling.json");
  out.remove_all_but(".writing");
  for (const auto& name : files) fs::rename(scratch.path() + "/" + name, out.file(name));
  for (const auto& w : got.warnings) progress.on_warning(w);
  if (o.json) {
    print_json(facts);
  } else {
    fmt::print("{} outputs by {}: {} proposals, ", n, to_string(f.protocol), facts["proposals"].get<int64_t>());
    if (!plain)
      fmt::print("acceptance {:.3f}, {:.1f} % different, longest run {}, ", r.acceptance, 100 * r.unique,
                 r.longest_run);
    fmt::print("{:.1f} s in the networks, {:.2f} s in the filter, {:.1f} s rendering.\n", got.network_seconds,
               got.other_seconds, render);
    fmt::print("{}: samples.npz (arr_0, uint8, NHWC), grid.png{}, sampling.json.\n", folder,
               o.pictures ? ", images/" : "");
  }
  return 0;
}

int compare_command(const GanOptions& o) {
  const Pair pair = pair_of_run(o.pair);
  OutputFolder run(o.pair, FolderKind::kGan, kGoOn);
  const ChosenCalibration chosen = load_calibration(run.path());
  CompareOptions c = o.comparison;
  if (!o.given.contains("per-output")) c.per_output = chosen.per_output;
  c.threads = o.threads;
  const FeatureNetwork features(o.features, o.feature_weights);
  const SplitImages images = load_splits(run.path(), o.data.spec);
  Progress progress(o.quiet);
  const Comparison got = compare_gan(run, pair, chosen, images, features, c, progress);
  progress.done();
  for (const auto& w : got.warnings) progress.on_warning(w);
  const std::string table = comparison_markdown(got, c);
  write_file(run.file("compare/table.md"), table);
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
    print_json({{"features", got.features}, {"real", got.real}, {"rows", rows}});
  } else {
    fmt::print("{}", table);
  }
  return 0;
}

}  // namespace hastings::app
