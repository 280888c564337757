#include "hastings/run/gan_calibrate.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <filesystem>

#include "hastings/core/error.h"
#include "hastings/gan/calibrate/choice_file.h"
#include "hastings/report/figure.h"

namespace hastings {
namespace {

namespace fs = std::filesystem;

// A run that is written, or a pair from elsewhere that becomes one.
struct Opened {
  std::unique_ptr<OutputFolder> folder;
  Pair pair;
};

Opened open_run(const GanCalibrateRequest& request) {
  const std::string& given = request.pair;
  if (fs::is_directory(given)) {
    if (!request.output.empty()) throw ConfigError("--output: a run is calibrated where it is");
    Pair pair = pair_of_run(given);
    return {std::make_unique<OutputFolder>(given, FolderKind::kGan, OutputFolder::Use::kGoOn), std::move(pair)};
  }
  if (!fs::exists(given))
    throw ConfigError(fmt::format("{}: is neither a run's folder nor a file that describes a pair", given));
  Pair pair = load_pair(given, request.weights_folder);
  const std::string folder = request.output.empty() ? "runs/" + fs::path(given).stem().string() : request.output;
  Opened out{std::make_unique<OutputFolder>(folder, FolderKind::kGan), std::move(pair)};
  if (fs::exists(fs::path(folder) / "config.json"))
    throw ConfigError(fmt::format("{}: holds networks that were trained there; give another --output", folder));
  import_pair(*out.folder, out.pair,
              request.weights_folder.empty() ? fs::path(given).parent_path().string() : request.weights_folder);
  return out;
}

// A run's images are split once.
void refuse_other_splits(const GanCalibrateRequest& request, const GanData& stored) {
  const GanData& d = request.data;
  const std::pair<const char*, bool> same[] = {{"crop", d.images.crop == stored.images.crop},
                                               {"size", d.images.size == stored.images.size},
                                               {"channels", d.images.channels == stored.images.channels},
                                               {"calibrate-images", d.splits.calibrate == stored.splits.calibrate},
                                               {"reference-images", d.splits.reference == stored.splits.reference},
                                               {"split-seed", d.seed == stored.seed}};
  for (const auto& [name, is] : same) {
    if (request.given.contains(name) && !is)
      throw ConfigError(
          fmt::format("--{}: the run's images are split already, with another value (splits.json)", name));
  }
}

SplitImages images_of(const GanCalibrateRequest& request, OutputFolder& folder) {
  if (fs::exists(fs::path(folder.path()) / "splits.json")) {
    SplitImages images = load_splits(folder.path(), request.given.contains("data") ? request.data.spec : "");
    refuse_other_splits(request, images.data);
    return images;
  }
  if (!request.given.contains("data"))
    throw ConfigError("--data: name the images the networks were trained to make (mnist:FOLDER, folder:FOLDER ...)");
  GanData data = request.data;
  data.splits.train = false;
  SplitImages images = load_split_images(data);
  save_splits(folder, images);
  return images;
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

}  // namespace

GanCalibrateOutcome gan_calibrate(const GanCalibrateRequest& request, Observer& observer) {
  request.options.validate();
  const Opened run = open_run(request);
  const SplitImages images = images_of(request, *run.folder);
  tell_splits(images, request.tell);
  check_image_shape(images, run.pair);
  CalibrateOptions options = request.options;
  if (request.witness == "auto") {
    options.witness = run_classifiers(*run.folder, images, options.threads, observer);
  } else if (request.witness != "none") {
    options.witness = std::make_shared<FeatureNetwork>(request.witness, request.witness_weights);
  }
  GanCalibrateOutcome out{run.folder->path(),
                          choose_calibration(run.pair, images.part(images.splits.calibrate), options, observer)};
  save_calibration(*run.folder, out.chosen);
  try {
    reliability_figure(*run.folder, out.chosen);
  } catch (const ConfigError&) {  // no gnuplot
  }
  for (const auto& w : out.chosen.warnings) observer.on_warning(w);
  return out;
}

}  // namespace hastings
