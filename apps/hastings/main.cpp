// hastings: learn a proposal by its acceptance rate, and sample with it.
#include <fmt/format.h>
#include <sys/resource.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "command/command.h"
#include "hastings/core/error.h"
#include "hastings/core/json.h"
#include "hastings/io/stored_fit.h"

namespace {

using namespace hastings::app;

constexpr Command (*kCommands[])(CLI::App&) = {targets_command, fit_command,       check_command,
                                               sample_command,  convert_command,   summary_command,
                                               report_command,  reproduce_command, data_command};
constexpr Command (*kGanCommands[])(CLI::App&) = {gan_train_command, gan_calibrate_command, gan_sample_command,
                                                  gan_compare_command};

int run(int argc, char** argv) {
  CLI::App app{"Learn a proposal for the Metropolis-Hastings algorithm by its acceptance rate, and sample with it."};
  app.require_subcommand(1);
  app.set_version_flag("--version", hastings::version());
  std::vector<Command> commands;
  for (const auto& make : kCommands) commands.push_back(make(app));
  auto* gan =
      app.add_subcommand("gan", "Train a generator by its acceptance rate; sample a GAN through Metropolis-Hastings");
  gan->require_subcommand(1);
  for (const auto& make : kGanCommands) commands.push_back(make(*gan));
  check_numbers(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return fail(2, error.what());
  }
  for (const auto& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  return 0;
}

// A run of many chains has several files open for each.
void raise_open_files() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Learning allocates the same megabytes at every step; given back to the system each time, their pages would be cleared
// and mapped again (a fifth of the time of a step on small networks).
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that is allowed
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
#endif
}

// Runs the command; its errors as a line and a code.
int run_to_the_end(int argc, char** argv) {
  try {
    const int code = run(argc, argv);
    if (code == 0 && interrupted()) return fail(130, "interrupted");
    return code;
  } catch (const std::exception& error) {
    if (interrupted()) {
      const bool known = dynamic_cast<const hastings::Interrupted*>(&error) != nullptr;
      return fail(130, known ? error.what() : "interrupted");
    }
    if (hastings::is_out_of_memory(error)) return fail(5, "out of memory");
    if (const auto* own = dynamic_cast<const hastings::Error*>(&error)) return fail(own->exit_code(), own->what());
    if (const auto* json = dynamic_cast<const nlohmann::json::exception*>(&error))
      return fail(3, fmt::format("a file of the run is damaged: {}", hastings::reason_of(*json)));
    if (dynamic_cast<const std::system_error*>(&error) != nullptr) return fail(3, error.what());
    const std::string text = error.what();
    return fail(1, fmt::format("unexpected error: {}", text.substr(0, text.find('\n'))));
  }
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  raise_open_files();
  const auto asks = [](std::string_view word) {
    return word == "--json" || (word.starts_with("--json=") && word != "--json=false" && word != "--json=0");
  };
  watch_over_the_end(std::any_of(argv + 1, argv + argc, asks));
  return flushed(run_to_the_end(argc, argv));
}
