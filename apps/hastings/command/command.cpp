#include "command.h"

#include <fmt/format.h>

namespace hastings::app {

std::function<void(const std::string&)> Voice::tell() const {
  if (quiet) return nullptr;
  return [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
}

void add_json(CLI::App& command, Voice& voice) { command.add_flag("--json", voice.json, "Print JSON"); }

void add_voice(CLI::App& command, Voice& voice) {
  add_json(command, voice);
  command.add_flag("-q,--quiet", voice.quiet, "No progress");
}

}  // namespace hastings::app
