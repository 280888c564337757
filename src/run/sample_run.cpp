#include "hastings/run/sample_run.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "../core/clock.h"
#include "hastings/core/error.h"
#include "hastings/core/fields.h"
#include "hastings/core/files.h"
#include "hastings/core/json.h"
#include "hastings/diagnose/ess.h"
#include "hastings/io/stored_draws.h"
#include "hastings/io/tensors.h"
#include "hastings/run/run_writer.h"
#include "hastings/run/summarise.h"

namespace hastings {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kFewest = 8;  // draws a chain that a run can end with

// Least bulk ESS of the outputs; those without one (constants) do not count.
double least_ess(const RunWriter& writer) {
  double least = std::numeric_limits<double>::infinity();
  const double share =
      static_cast<double>(writer.draws()) / static_cast<double>(std::max<int64_t>(1, writer.diagnosed()));
  for (size_t i = 0; i < writer.names().size(); ++i) {
    const double ess = bulk_ess(writer.column(static_cast<int64_t>(i))) * share;
    if (std::isfinite(ess)) least = std::min(least, ess);
  }
  return std::isfinite(least) ? least : 0;
}

// How many draws to look again at: what the ESS so far promises, a little more for luck, at most four times as many.
int64_t next_look(int64_t draws, double ess, double wanted) {
  const double factor = ess > 0 ? 1.05 * wanted / ess : 4.0;
  return static_cast<int64_t>(std::ceil(static_cast<double>(draws) * std::clamp(factor, 1.1, 4.0)));
}

}  // namespace

SampleRequest finished_request(const std::string& folder) { return load_summary(folder).request; }

SampleRequest interrupted_request(const std::string& folder) {
  const std::string path = folder + "/.sampling/request.json";
  if (!fs::exists(path)) throw ConfigError(fmt::format("{}: there is no interrupted sampling to resume", folder));
  try {
    auto request = read_json(path).at("request").get<SampleRequest>();
    request.options.validate();
    return request;
  } catch (const json::exception&) {
    throw DataError(fmt::format("{}: is not a stored request", path));
  } catch (const Error& error) {
    throw DataError(fmt::format("{}: {}", path, error.what()));
  }
}

SampleOutcome sample_into(OutputFolder& folder, const Target& target, const StoredFit& stored, SampleRequest request,
                          int64_t more, Observer& observer) {
  SampleOutcome out;
  out.run = folder.path();
  request.options = request.options.resolved(std::min(stored.learned_acceptance, stored.chain_acceptance));
  request.options.validate();
  {
    Stream stream(request.options.seed, Phase::kRepeat, 0, Purpose::kProposal);
    check_repeats(target, stored.proposal->sample(64, stream).x);
  }
  std::unique_ptr<StoredDraws> before;
  if (more > 0) {
    before = std::make_unique<StoredDraws>(folder.path());
    request.options.draws = before->draws() + more;
  }
  RunWriter writer(folder, target, request);
  Sampler sampler(target, *stored.proposal, request.options);
  int64_t wanted = request.options.draws;
  auto state = writer.take_up();
  if (!state.empty()) {
    wanted = state.at("wanted").item<int64_t>();
  } else if (!before) {
    writer.start();
  } else {
    state = read_tensors(folder.path() + "/sampler.pt");
    state["seconds"] = at::tensor(load_summary(folder.path()).seconds, at::kDouble);
    if (!state.contains("draws") || state.at("draws").item<int64_t>() != before->draws() ||
        before->chains() != request.options.chains || before->names() != writer.names())
      throw DataError(fmt::format("{}: draws.npz and sampler.pt do not belong together; sample anew", folder.path()));
    writer.continue_from(*before);
  }
  if (!state.empty()) sampler.restore(state);
  out.resumed_from = sampler.draws();

  auto with_goal = [&] {
    auto now = sampler.state();
    now["wanted"] = at::tensor({wanted}, at::kLong);
    return now;
  };
  Portions portions;
  auto stored_at = std::chrono::steady_clock::now();
  for (;;) {
    if (sampler.draws() >= wanted) {
      out.stopped = "draws";
      if (request.target_ess == 0) break;
      const double ess = least_ess(writer);
      out.stopped = "target-ess";
      if (ess >= request.target_ess) break;
      wanted = next_look(wanted, ess, request.target_ess);
    }
    if (observer.should_stop()) {
      if (sampler.draws() < kFewest) throw Interrupted("stopped while sampling");
      writer.checkpoint(with_goal());  // what follows may take longer than anybody waits
      out.stopped = "interrupted";
      break;
    }
    const double seconds = sampler.report().seconds;
    if (request.max_seconds > 0 && seconds > request.max_seconds && sampler.draws() >= kFewest) {
      out.stopped = "max-seconds";
      break;
    }
    const int64_t done = sampler.draws();
    sampler.advance_to(portions.next(done, wanted), writer, observer);
    portions.took(sampler.draws() - done, sampler.report().seconds - seconds);
    if (seconds_since(stored_at) < request.checkpoint_seconds) continue;
    writer.checkpoint(with_goal());
    stored_at = std::chrono::steady_clock::now();
  }
  observer.on_summary();
  SampleOptions options = request.options;
  options.draws = sampler.draws();
  writer.finish(sampler.report(), summarise_run(target, options, sampler.report(), writer, stored), with_goal());
  out.stored = load_summary(folder.path());
  return out;
}

namespace {

// The folder of a run that has a proposal, and its target.
struct OpenRun {
  std::unique_ptr<OutputFolder> folder;
  std::unique_ptr<Target> target;
};

OpenRun open_run(const SampleRunRequest& request, Observer& observer) {
  const std::string& name = request.fit.target.target;
  OpenRun out;
  if (request.fit.output.empty() && fs::is_directory(name)) {
    if (!is_run(name)) throw ConfigError(fmt::format("{}: is not a run folder (no proposal.pt)", name));
    out.folder = std::make_unique<OutputFolder>(name, FolderKind::kRun, OutputFolder::Use::kGoOn);
    out.target = find_target(stored_target(name), request.fit.target.how);
    return out;
  }
  if (request.more > 0 || request.resume)
    throw ConfigError("--more and --resume go on with a run: name its folder instead of a target");
  out.target = request.fit.target.open();
  const std::string folder = request.fit.output.empty() ? default_folder(name) : request.fit.output;
  out.folder = std::make_unique<OutputFolder>(folder, FolderKind::kRun);
  if (!is_run(folder) || request.fit.overwrite) {
    fit_into(*out.folder, *out.target, request.fit, observer);
  } else if (stored_target(folder) != out.target->name()) {
    throw ConfigError(fmt::format("{}: is a run of target {}, not of {}; use another --output", folder,
                                  stored_target(folder), out.target->name()));
  } else {
    request.note(fmt::format("Using the proposal learned in {} (--overwrite learns anew).", folder));
  }
  return out;
}

}  // namespace

SampleOutcome sample_run(const SampleRunRequest& given, Observer& observer) {
  given.fit.options.validate();
  given.sample.options.validate();
  const OpenRun run = open_run(given, observer);
  const std::string& folder = run.folder->path();
  const StoredFit stored = load_fit(folder, run.target->dim());
  if (stored.target != run.target->name())
    throw ConfigError(fmt::format("{}: is a run of target {}, not of {}", folder, stored.target, run.target->name()));
  SampleRequest request = given.sample;
  if (given.resume) request = interrupted_request(folder);
  if (given.more > 0) {
    request = finished_request(folder);
    request.target_ess = given.sample.target_ess;
    request.max_seconds = given.sample.max_seconds;
  }
  request.options.threads = given.sample.options.threads;
  request.checkpoint_seconds = given.fit.checkpoint_seconds;
  return sample_into(*run.folder, *run.target, stored, request, given.resume ? 0 : given.more, observer);
}

}  // namespace hastings
