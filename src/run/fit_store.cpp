#include "hastings/run/fit_store.h"

#include <fmt/format.h>

#include <filesystem>

#include "hastings/core/error.h"
#include "hastings/core/fields.h"
#include "hastings/core/files.h"
#include "hastings/io/stored_fit.h"
#include "hastings/io/tensors.h"

namespace hastings {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

std::string in(const std::string& folder, const std::string& name) { return (fs::path(folder) / name).string(); }

}  // namespace

FitStore::FitStore(OutputFolder& folder, const Target& target, const FitOptions& options, double every_seconds)
    : folder_(folder), every_(every_seconds), last_(std::chrono::steady_clock::now()) {
  FitOptions same = options;
  same.learn.threads = 0;  // changes nothing
  identity_ = json{{"target", target.name()}, {"options", same}, {"version", version()}}.dump(2) + "\n";
}

bool FitStore::due() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - last_).count() >= every_;
}

void FitStore::save(const std::map<std::string, Tensor>& state) {
  folder_.check();
  const std::string scratch = folder_.subfolder(kFolder);
  if (!stored()) {  // of something else: its state must not be taken for ours
    std::error_code ignored;
    fs::remove(in(scratch, "state.pt"), ignored);
    write_file(in(scratch, "fit.json"), identity_);
  }
  write_tensors(in(scratch, "state.pt"), state);
  last_ = std::chrono::steady_clock::now();
}

bool FitStore::stored() const {
  const std::string scratch = in(folder_.path(), kFolder);
  return fs::exists(in(scratch, "state.pt")) && fs::exists(in(scratch, "fit.json")) &&
         read_file(in(scratch, "fit.json")) == identity_;
}

std::map<std::string, Tensor> FitStore::load() {
  if (!stored()) return {};
  return read_tensors(in(in(folder_.path(), kFolder), "state.pt"));
}

void FitStore::remove() { folder_.remove(kFolder); }

bool FitStore::exists(const std::string& folder) { return fs::exists(in(in(folder, kFolder), "state.pt")); }

void FitStore::restore_options(const std::string& folder, std::string& target, FitOptions& options) {
  if (!exists(folder)) throw ConfigError(fmt::format("{}: there is no interrupted learning to resume", folder));
  const std::string path = in(in(folder, kFolder), "fit.json");
  const int threads = options.learn.threads;
  try {
    const json stored = parse_json(path, read_file(path));
    target = stored.at("target").get<std::string>();
    options = stored.at("options").get<FitOptions>();
  } catch (const json::exception&) {
    throw DataError(fmt::format("{}: is damaged", path));
  }
  options.learn.threads = threads;
}

}  // namespace hastings
