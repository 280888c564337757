// A subcommand: its options, the call of what it does, and what is printed of that. One file each.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "checks.h"
#include "guard.h"
#include "progress.h"

namespace hastings::app {

struct Command {
  CLI::App* app;
  std::function<int()> run;  // returns the exit code
};

Command targets_command(CLI::App& app);
Command fit_command(CLI::App& app);
Command check_command(CLI::App& app);
Command sample_command(CLI::App& app);
Command convert_command(CLI::App& app);
Command summary_command(CLI::App& app);
Command report_command(CLI::App& app);
Command reproduce_command(CLI::App& app);
Command data_command(CLI::App& app);
Command gan_train_command(CLI::App& gan);
Command gan_calibrate_command(CLI::App& gan);
Command gan_sample_command(CLI::App& gan);
Command gan_compare_command(CLI::App& gan);

// How a command speaks.
struct Voice {
  bool json = false, quiet = false;
  // A line on standard error, for what takes time.
  std::function<void(const std::string&)> tell() const;
};
void add_json(CLI::App& command, Voice& voice);
void add_voice(CLI::App& command, Voice& voice);  // --json and --quiet

}  // namespace hastings::app
