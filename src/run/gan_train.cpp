#include "hastings/run/gan_train.h"

#include <fmt/format.h>

#include <filesystem>

#include "hastings/core/error.h"

namespace hastings {
namespace {

namespace fs = std::filesystem;

struct Opened {
  std::unique_ptr<OutputFolder> folder;
  GanTrainRequest train;
  SplitImages images;
};

Opened resume(const GanTrainRunRequest& request) {
  const std::string folder = request.output.empty() ? request.data.spec : request.output;
  if (!fs::exists(fs::path(folder) / "config.json"))
    throw ConfigError(fmt::format("{}: holds no training to resume", folder));
  Opened out{std::make_unique<OutputFolder>(folder, FolderKind::kGan, OutputFolder::Use::kGoOn),
             stored_gan_request(folder), load_splits(folder)};
  out.train.checkpoint_seconds = request.train.checkpoint_seconds;
  if (request.threads) out.train.threads = *request.threads;
  if (request.other_end) {
    out.train.train.epochs = request.train.train.epochs;
    out.train.train.iterations = request.train.train.iterations;
  }
  return out;
}

Opened begin(const GanTrainRunRequest& request) {
  std::string folder = request.output;
  if (folder.empty()) {
    const std::string name = request.data.spec.substr(0, request.data.spec.find(':'));
    folder = fmt::format("runs/{}-{}", fs::path(name).stem().string(), to_string(request.train.train.loss));
  }
  const bool begun = fs::exists(fs::path(folder) / "config.json") || is_gan_run(folder);
  if (is_output_folder(folder, FolderKind::kGan) && begun && !request.overwrite)
    throw ConfigError(fmt::format("{}: is there already; use --resume, --overwrite, or another --output", folder));
  request.train.train.validate();
  auto held = std::make_unique<OutputFolder>(folder, FolderKind::kGan);
  return {std::move(held), request.train, load_split_images(request.data)};
}

}  // namespace

GanTrainOutcome gan_train(const GanTrainRunRequest& request, Observer& observer) {
  const Opened run = request.resume ? resume(request) : begin(request);
  tell_splits(run.images, request.tell);
  return {run.folder->path(), run.train.train.loss,
          train_gan(*run.folder, run.images, run.train, request.resume, observer)};
}

}  // namespace hastings
