#include "hastings/run/gan_sample.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "../core/clock.h"
#include "hastings/core/error.h"
#include "hastings/core/fields.h"
#include "hastings/core/files.h"
#include "hastings/core/output_folder.h"
#include "hastings/data/images.h"
#include "hastings/gan/calibrate/choice_file.h"
#include "hastings/gan/filter/sample.h"
#include "hastings/io/npz.h"
#include "hastings/run/gan_run.h"

namespace hastings {
namespace {

namespace fs = std::filesystem;

// Pixels as raw bytes, NHWC: they go into the archive in the end.
class RawPixels {
 public:
  explicit RawPixels(std::string path) : path_(std::move(path)), file_(std::fopen(path_.c_str(), "wb"), std::fclose) {
    if (!file_) fail();
  }
  void append(const Tensor& images) {
    const Tensor rows = images.permute({0, 2, 3, 1}).contiguous();
    const auto size = static_cast<size_t>(rows.numel());
    if (std::fwrite(rows.data_ptr(), 1, size, file_.get()) != size) fail();
  }
  void flush() {
    if (std::fflush(file_.get()) != 0) fail();
  }
  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void fail() const {
    throw DataError(fmt::format("{}: cannot be written: {}", path_, std::strerror(errno)));
  }
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

// The winners' images, in the scratch folder; returns the names of the files.
std::vector<std::string> render(const GanSampleRequest& request, const Proposals& proposals, const Pair& pair,
                                const std::vector<int64_t>& chosen, OutputFolder& out, const std::string& scratch,
                                Observer& observer) {
  constexpr int64_t kChunk = 5000;
  const auto n = static_cast<int64_t>(chosen.size());
  std::vector<std::string> files = {"samples.npz", "grid.png"};
  if (request.pictures) make_directory(scratch + "/images");
  RawPixels raw(scratch + "/pixels.raw");
  for (int64_t from = 0; from < n; from += kChunk) {
    if (observer.should_stop()) throw Interrupted("interrupted while rendering");
    out.check();
    const Tensor images = proposals.render({chosen.begin() + from, chosen.begin() + std::min(from + kChunk, n)});
    raw.append(images);
    if (from == 0) write_png(scratch + "/grid.png", image_grid(images.narrow(0, 0, std::min<int64_t>(n, 100)), 10));
    for (int64_t i = 0; request.pictures && i < images.size(0); ++i) {
      files.push_back(fmt::format("images/{:07}.png", from + i));
      write_png(scratch + "/" + files.back(), images[i]);
    }
  }
  raw.flush();
  write_npz(scratch + "/samples.npz",
            {{"arr_0", {n, pair.image[1], pair.image[2], pair.image[0]}, {raw.path()}, "|u1"}});
  return files;
}

}  // namespace

GanSampleOutcome gan_sample(const GanSampleRequest& request, Observer& observer) {
  const Pair pair = pair_of_run(request.run);
  const ChosenCalibration chosen = load_calibration(request.run);
  FilterOptions filter;
  filter.outputs = request.outputs;
  filter.protocol = request.protocol.value_or(chosen.protocol);
  filter.per_output = request.per_output.value_or(chosen.per_output);
  filter.validate();
  GanSampleOutcome done;
  done.run = request.run;
  done.output = request.output.empty() ? (fs::path(request.run) / fmt::format("outputs-{}", request.seed)).string()
                                       : request.output;
  OutputFolder out(done.output, FolderKind::kSamples);
  const ScratchFolder scratch(out, ".writing");
  const Proposals proposals(pair, request.seed, Phase::kGanSample, request.threads);
  const GanSamples got =
      filter_proposals(proposals, chosen, {filter}, {request.seed, Phase::kGanFilter}, observer).front();
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::string> files = render(request, proposals, pair, got.filtered.chosen, out, scratch.path(), observer);
  const bool plain = filter.protocol == ProtocolKind::kPlain;
  const Filtered& r = got.filtered;
  done.protocol = to_string(filter.protocol);
  if (!plain) done.calibration = to_string(chosen.calibration.method);
  done.outputs = static_cast<int64_t>(r.chosen.size());
  done.per_output = filter.per_output;
  done.proposals = plain ? done.outputs : r.proposals;
  if (!plain) done.acceptance = r.acceptance;
  done.unique = r.unique;
  done.longest_run = r.longest_run;
  done.stuck_starts = r.stuck;
  done.non_finite = r.non_finite;
  done.seed = request.seed;
  done.score_seconds = got.network_seconds;
  done.filter_seconds = got.other_seconds;
  done.render_seconds = seconds_since(begin);
  done.warnings = got.warnings;
  write_file(scratch.path() + "/sampling.json", nlohmann::json(done).dump(2) + "\n");
  files.push_back("sampling.json");  // last: with it the samples are complete, and without it they are not
  out.remove("sampling.json");
  out.remove_all_but(".writing");
  for (const auto& name : files) fs::rename(scratch.path() + "/" + name, out.file(name));
  for (const auto& w : got.warnings) observer.on_warning(w);
  return done;
}

}  // namespace hastings
