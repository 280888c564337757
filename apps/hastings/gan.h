// The options of `hastings gan ...` and `hastings data ...`.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

namespace hastings::app {

class GanCommands {
 public:
  explicit GanCommands(CLI::App& app);
  ~GanCommands();
  // The exit code, if one of the commands was given.
  std::optional<int> run();

  struct Options;

 private:
  std::unique_ptr<Options> options_;
};

}  // namespace hastings::app
