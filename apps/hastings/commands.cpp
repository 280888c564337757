#include "commands.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "guard.h"
#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/diagnose/check.h"
#include "hastings/io/run_folder.h"
#include "hastings/report/html.h"
#include "hastings/target/registry.h"
#include "progress.h"

namespace hastings::app {

using nlohmann::json;

namespace {

constexpr auto kWrite = OutputFolder::Use::kWrite, kGoOn = OutputFolder::Use::kGoOn;

std::unique_ptr<Target> open_target(const std::string& spec, const RunOptions& options) {
  TargetOptions how;
  how.stan_toolchain = options.stan_toolchain;
  if (!options.common.quiet) how.tell = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  return find_target(spec, how);
}

// As the target calls itself: with its data.
std::string spec_of(const RunOptions& options) {
  return options.data.empty() ? options.target : options.target + " data=" + options.data;
}

// runs/mog6, runs/icg-100, runs/logistic-german, runs/stan-schools
std::string default_folder(const std::string& target) {
  const auto colon = target.find(':');
  std::string name = target.substr(0, colon);
  if (colon != std::string::npos)
    name = fmt::format("{}-{}", name, std::filesystem::path(target.substr(colon + 1)).stem().string());
  return "runs/" + name;
}

void print_table(const json& s) {
  auto cell = [](const json& value, const char* format) {
    return value.is_null() ? std::string("-") : fmt::format(fmt::runtime(format), value.get<double>());
  };
  size_t width = 9;
  for (const auto& p : s["parameters"]) width = std::max(width, p["name"].get<std::string>().size());
  fmt::print("{:{}}  {:>10} {:>9} {:>9} {:>9} {:>10} {:>10} {:>10} {:>9} {:>9} {:>7}\n", "parameter", width, "Mean",
             "MCSE", "StdDev", "MAD", "5%", "50%", "95%", "ESS_bulk", "ESS_tail", "R_hat");
  for (const auto& p : s["parameters"]) {
    fmt::print("{:{}}  {:>10} {:>9} {:>9} {:>9} {:>10} {:>10} {:>10} {:>9} {:>9} {:>7}\n", p["name"].get<std::string>(),
               width, cell(p["mean"], "{:.4g}"), cell(p["mcse"], "{:.2g}"), cell(p["sd"], "{:.4g}"),
               cell(p["mad"], "{:.4g}"), cell(p["q5"], "{:.4g}"), cell(p["q50"], "{:.4g}"), cell(p["q95"], "{:.4g}"),
               cell(p["ess_bulk"], "{:.0f}"), cell(p["ess_tail"], "{:.0f}"), cell(p["rhat"], "{:.4f}"));
  }
  auto value = [&](const char* key, const char* format) { return cell(s[key], format); };
  fmt::print("\n{} chains of {} draws. Acceptance {} (95 % interval {} to {}; lower bound from the symmetric KL {}).\n",
             s["chains"].get<int64_t>(), s["draws"].get<int64_t>(), value("acceptance", "{:.4f}"),
             cell(s["acceptance_interval"][0], "{:.4f}"), cell(s["acceptance_interval"][1], "{:.4f}"),
             value("acceptance_lower_bound", "{:.3f}"));
  fmt::print("log evidence {} ± {}, Pareto k {}, longest stay {} step{}", value("log_evidence", "{:.4f}"),
             value("log_evidence_error", "{:.2g}"), value("pareto_k", "{:.2f}"), s["longest_run"].get<int64_t>(),
             s["longest_run"] == 1 ? "" : "s");
  if (!s["mixing_steps"].is_null())
    fmt::print(", within 0.01 of stationarity after {} step{} (coupled chains)", s["mixing_steps"].get<int64_t>(),
               s["mixing_steps"] == 1 ? "" : "s");
  fmt::print(".\nLearning {} s, sampling {} s; {} effective draws a second while sampling, {} with learning.\n",
             value("learn_seconds", "{:.2f}"), value("sample_seconds", "{:.3g}"), value("ess_per_second", "{:.0f}"),
             value("ess_per_second_with_learning", "{:.0f}"));
  for (const auto& line : s["verdict"]) fmt::print("{}\n", line.get<std::string>());
}

std::string folder_of(const RunOptions& options) {
  return options.output.empty() ? default_folder(options.target) : options.output;
}

// Learns, and stores the fit.
void fit_into(OutputFolder& folder, const Target& target, const RunOptions& options, Progress& progress, bool tell) {
  if (is_run(folder.path()) && !options.overwrite) {
    throw ConfigError(fmt::format("{}: holds a run already; use --overwrite, or another --output", folder.path()));
  }
  FitStore store(folder, target, options.fit, options.checkpoint_seconds);
  if (options.overwrite && !options.resume) store.remove();
  if (store.stored() && !options.common.quiet) fmt::print(stderr, "Going on with the learning that was interrupted.\n");
  const Fit result = [&] {
    try {
      return fit(target, options.fit, progress, &store);
    } catch (const NumericalError&) {  // to go on from there would end the same
      store.remove();
      throw;
    }
  }();
  progress.done();
  save_fit(folder, target, options.fit, result);
  if (!tell) return;
  if (options.common.json) {
    print_json({{"run", folder.path()},
                {"target", target.name()},
                {"acceptance", result.learning.acceptance},
                {"acceptance_lower_bound", result.learning.acceptance_bound},
                {"start", result.start_method},
                {"iterations", result.learning.iterations},
                {"stopped", result.learning.stopped},
                {"seconds", result.seconds}});
  } else {
    fmt::print("Learned a proposal for {} in {:.1f} s and {} steps ({}): acceptance {:.3f}.\nRun folder: {}\n",
               target.name(), result.seconds, result.learning.iterations, result.learning.stopped,
               result.learning.acceptance, folder.path());
  }
}

}  // namespace

int list_targets_command(const Common& common) {
  const auto targets = list_targets();
  if (common.json) {
    json list = json::array();
    for (const auto& t : targets) list.push_back({{"name", t.name}, {"summary", t.summary}});
    print_json(list);
    return 0;
  }
  for (const auto& t : targets) fmt::print("{:20} {}\n", t.name, t.summary);
  return 0;
}

int fit_command(const RunOptions& given) {
  RunOptions options = given;
  if (options.resume) {
    if (is_run(options.target) && !FitStore::exists(options.target))
      throw ConfigError(fmt::format("{}: is learned already; there is nothing to resume", options.target));
    options.output = options.target;
    FitStore::restore_options(options.output, options.target, options.fit);
    options.overwrite = true;
  }
  options.fit.validate();
  const auto target = open_target(spec_of(options), options);
  Progress progress(options.common.quiet);
  OutputFolder folder(folder_of(options), FolderKind::kRun, options.resume ? kGoOn : kWrite);
  fit_into(folder, *target, options, progress, true);
  return 0;
}

int check_command(const RunOptions& options) {
  const auto target = open_target(spec_of(options), options);
  const TargetCheck c = check_target(*target, options.sample.options.seed);
  if (options.common.json) {
    print_json({{"target", target->name()},
                {"dimension", c.dim},
                {"outputs", c.outputs},
                {"points", c.points},
                {"finite", c.finite},
                {"gradient_error", c.gradient_error},
                {"batch_error", c.batch_error},
                {"float_error", c.float_error},
                {"seconds_per_value", c.value_seconds},
                {"seconds_per_gradient", c.gradient_seconds},
                {"problems", c.problems},
                {"notes", c.notes}});
  } else {
    fmt::print("{}\n  dimension            {}{}\n  finite               {:.1f} % of {} points\n", target->name(), c.dim,
               c.outputs == c.dim ? "" : fmt::format(" ({} outputs)", c.outputs), 100 * c.finite, c.points);
    if (c.finite > 0) {
      fmt::print(
          "  gradient             within {:.1e} of differences\n  rows of a batch      within {:.1e} of the row "
          "alone\n"
          "  rounding to float    changes the log density by {:.1e}\n  an evaluation        {:.2f} µs, with gradient "
          "{:.2f} µs (in batches of 256, one core)\n",
          c.gradient_error, c.batch_error, c.float_error, 1e6 * c.value_seconds, 1e6 * c.gradient_seconds);
    }
    for (const auto& line : c.problems) fmt::print("Problem: {}\n", line);
    for (const auto& line : c.notes) fmt::print("Note: {}\n", line);
    if (c.problems.empty()) fmt::print("Nothing wrong was found.\n");
  }
  return c.problems.empty() ? 0 : 4;
}

int sample_command(const RunOptions& options) {
  options.fit.validate();
  options.sample.options.validate();
  Progress progress(options.common.quiet);
  std::string folder;
  std::unique_ptr<Target> target;
  std::unique_ptr<OutputFolder> out;
  if (options.output.empty() && std::filesystem::is_directory(options.target)) {
    folder = options.target;
    if (!is_run(folder)) throw ConfigError(fmt::format("{}: is not a run folder (no proposal.pt)", folder));
    out = std::make_unique<OutputFolder>(folder, FolderKind::kRun, kGoOn);
    target = open_target(stored_target(folder), options);
  } else {
    if (options.more > 0 || options.resume)
      throw ConfigError("--more and --resume go on with a run: name its folder instead of a target");
    target = open_target(spec_of(options), options);
    folder = folder_of(options);
    out = std::make_unique<OutputFolder>(folder, FolderKind::kRun);
    if (!is_run(folder) || options.overwrite) {
      fit_into(*out, *target, options, progress, false);
    } else if (stored_target(folder) != target->name()) {
      throw ConfigError(fmt::format("{}: is a run of target {}, not of {}; use another --output", folder,
                                    stored_target(folder), target->name()));
    } else if (!options.common.quiet && !options.common.json) {
      fmt::print("Using the proposal learned in {} (--overwrite learns anew).\n", folder);
    }
  }
  const StoredFit stored = load_fit(folder, target->dim());
  if (stored.target != target->name())
    throw ConfigError(fmt::format("{}: is a run of target {}, not of {}", folder, stored.target, target->name()));
  SampleRequest request = options.sample;
  if (options.resume) request = interrupted_request(folder);
  if (options.more > 0) {
    request = finished_request(folder);
    request.target_ess = options.sample.target_ess;
    request.max_seconds = options.sample.max_seconds;
  }
  request.options.threads = options.sample.options.threads;
  request.checkpoint_seconds = options.checkpoint_seconds;
  const int64_t more = options.resume ? 0 : options.more;
  const Sampled done = sample_into(*out, *target, stored, request, more, progress);
  progress.done();
  json full = load_summary(folder);
  if (options.common.json) {
    full["run"] = folder;
    full["stopped"] = done.stopped;
    print_json(full);
  } else {
    print_table(full);
    if (done.resumed_from > 0) fmt::print("{} draws of each chain were there already.\n", done.resumed_from);
    if (done.stopped == "interrupted" || done.stopped == "max-seconds")
      fmt::print("Stopped ({}); `hastings sample {} --more N` goes on.\n", done.stopped, folder);
    fmt::print("Run folder: {}\n", folder);
  }
  return done.stopped == "interrupted" ? 130 : 0;
}

int convert_command(const std::string& folder, const std::string& to, const RunOptions& options) {
  OutputFolder out(folder, FolderKind::kRun, kGoOn);
  load_summary(folder);  // says what is missing
  std::unique_ptr<Target> target;
  const std::string name = stored_target(folder);
  // For the data it was observed with, if it can still be opened; shared objects have none, and are not loaded for it.
  if (to == "netcdf" && !name.starts_with("plugin:") && !name.starts_with("stan:")) {
    try {
      target = open_target(name, options);
    } catch (const Error& error) {
      fmt::print(stderr, "hastings: warning: without observed data: {}\n", error.what());
    }
  }
  const auto files = convert_run(out, to, target.get());
  if (options.common.json) {
    print_json({{"files", files}}, -1);
  } else {
    for (const auto& file : files) fmt::print("{}\n", file);
  }
  return 0;
}

int reproduce_command(const std::string& name, const reproduce::Options& options, const Common& common) {
  const auto& all = reproduce::experiments();
  if (name == "list") {
    for (const auto& e : all) fmt::print("{:12} {} ({})\n", e.name, e.what, e.cost);
    return 0;
  }
  bool found = false;
  Progress progress(common.quiet);
  for (const auto& e : all) {
    if (name != "all" && name != e.name) continue;
    found = true;
    reproduce::Context context(e, options, progress, [&](const std::string& line) {
      progress.done();
      fmt::print("{}: {}\n", e.name, line);
      std::fflush(stdout);
    });
    e.run(context);
    context.gather();
  }
  if (!found) {
    std::vector<std::string> names;
    for (const auto& e : all) names.push_back(e.name);
    throw ConfigError(fmt::format("unknown experiment '{}'; there are {}, all and list", name, fmt::join(names, ", ")));
  }
  return 0;
}

int report_command(const std::string& folder, const RunOptions& options) {
  OutputFolder out(folder, FolderKind::kRun, kGoOn);
  load_summary(folder);  // says what is missing
  const auto target = open_target(stored_target(folder), options);
  const StoredFit stored = load_fit(folder, target->dim());
  const std::string page = write_report(out, *target, *stored.proposal);
  if (options.common.json) {
    print_json({{"report", page}}, -1);
  } else {
    fmt::print("{}\n", page);
  }
  return 0;
}

int summary_command(const std::string& folder, const Common& common) {
  const json s = load_summary(folder);
  if (common.json) {
    print_json(s);
  } else {
    print_table(s);
  }
  return 0;
}

}  // namespace hastings::app
