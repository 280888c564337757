// A sampling run from its request to its files.
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
#include "hastings/io/run_folder.h"

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

// Of all, and of each chain.
Tensor stored_seconds(const std::string& folder) {
  try {
    return at::tensor(load_summary(folder).at("seconds").get<std::vector<double>>(), at::kDouble);
  } catch (const json::exception&) {
    throw DataError(fmt::format("{}/summary.json: has no seconds; it is of an earlier version", folder));
  }
}

SampleRequest stored_request(const std::string& path, const std::string& nothing) {
  if (!fs::exists(path)) throw ConfigError(nothing);
  try {
    auto request = read_json(path).at("request").get<SampleRequest>();
    request.options.validate();
    return request;
  } catch (const json::exception&) {
    throw DataError(fmt::format("{}: is not a stored request", path));
  } catch (const ConfigError& error) {
    throw DataError(fmt::format("{}: {}", path, error.what()));
  }
}

}  // namespace

SampleRequest finished_request(const std::string& folder) {
  return stored_request(folder + "/summary.json",
                        fmt::format("{}: has no draws yet; run `hastings sample {}`", folder, folder));
}

SampleRequest interrupted_request(const std::string& folder) {
  return stored_request(folder + "/.sampling/request.json",
                        fmt::format("{}: there is no interrupted sampling to resume", folder));
}

Sampled sample_into(OutputFolder& folder, const Target& target, const StoredFit& stored, SampleRequest request,
                    int64_t more, Observer& observer) {
  Sampled out;
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
    state["seconds"] = stored_seconds(folder.path());
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
  out.summary = summarise_run(target, options, sampler.report(), writer, stored);
  writer.finish(sampler.report(), out.summary, with_goal());
  return out;
}

}  // namespace hastings
