#include "hastings/run/fit_run.h"

#include <fmt/format.h>

#include <filesystem>

#include "hastings/core/error.h"
#include "hastings/io/stored_fit.h"
#include "hastings/run/fit_store.h"

namespace hastings {

std::string default_folder(const std::string& target) {
  const auto colon = target.find(':');
  std::string name = target.substr(0, colon);
  if (colon != std::string::npos)
    name = fmt::format("{}-{}", name, std::filesystem::path(target.substr(colon + 1)).stem().string());
  return "runs/" + name;
}

FitOutcome fit_into(OutputFolder& folder, const Target& target, const FitRequest& request, Observer& observer) {
  if (is_run(folder.path()) && !request.overwrite)
    throw ConfigError(fmt::format("{}: holds a run already; use --overwrite, or another --output", folder.path()));
  FitStore store(folder, target, request.options, request.checkpoint_seconds);
  if (request.overwrite && !request.resume) store.remove();
  if (store.stored() && request.target.how.tell)
    request.target.how.tell("Going on with the learning that was interrupted.");
  const Fit learned = [&] {
    try {
      return fit(target, request.options, observer, &store);
    } catch (const NumericalError&) {  // to go on from there would end the same
      store.remove();
      throw;
    }
  }();
  save_fit(folder, target, request.options, learned, FitStore::kFolder);
  store.remove();
  FitOutcome out;
  out.run = folder.path();
  out.target = target.name();
  out.start = learned.start_method;
  out.stopped = learned.learning.stopped;
  out.acceptance = learned.learning.acceptance;
  out.acceptance_lower_bound = learned.learning.acceptance_bound;
  out.iterations = learned.learning.iterations;
  out.seconds = learned.seconds;
  return out;
}

FitOutcome fit_run(const FitRequest& given, Observer& observer) {
  FitRequest request = given;
  std::string& name = request.target.target;
  if (request.resume) {
    request.output = name;
    if (is_run(name) && !FitStore::exists(name))
      throw ConfigError(fmt::format("{}: is learned already; there is nothing to resume", name));
    FitStore::restore_options(request.output, name, request.options);
    request.overwrite = true;
  }
  request.options.validate();
  const auto target = request.target.open();
  OutputFolder folder(request.output.empty() ? default_folder(name) : request.output, FolderKind::kRun,
                      request.resume ? OutputFolder::Use::kGoOn : OutputFolder::Use::kWrite);
  return fit_into(folder, *target, request, observer);
}

}  // namespace hastings
