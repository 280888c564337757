#include "hastings/run/convert_run.h"

#include "hastings/core/error.h"
#include "hastings/core/output_folder.h"
#include "hastings/io/convert.h"
#include "hastings/io/stored_fit.h"
#include "hastings/io/stored_summary.h"
#include "hastings/report/html.h"

namespace hastings {

std::vector<std::string> convert_run(const std::string& folder, const std::string& to, const TargetOptions& how,
                                     const std::function<void(const std::string&)>& warn) {
  OutputFolder out(folder, FolderKind::kRun, OutputFolder::Use::kGoOn);
  load_summary(folder);  // says what is missing
  std::unique_ptr<Target> target;
  const std::string name = stored_target(folder);
  // For the data it was observed with, if it can still be opened; shared objects have none, and are not loaded for it.
  if (to == "netcdf" && !name.starts_with("plugin:") && !name.starts_with("stan:")) {
    try {
      target = find_target(name, how);
    } catch (const Error& error) {
      warn(std::string("without observed data: ") + error.what());
    }
  }
  return convert_draws(out, to, target.get());
}

std::string report_run(const std::string& folder, const TargetOptions& how) {
  OutputFolder out(folder, FolderKind::kRun, OutputFolder::Use::kGoOn);
  load_summary(folder);  // says what is missing
  const auto target = find_target(stored_target(folder), how);
  const StoredFit stored = load_fit(folder, target->dim());
  return write_report(out, *target, *stored.proposal);
}

}  // namespace hastings
