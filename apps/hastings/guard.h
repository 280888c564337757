// How the program ends, when it does not end by itself: Ctrl-C, a plugin that crashes, an error.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace hastings::app {

// From now on Ctrl-C and SIGTERM ask the running task to stop; one that has not within a second is ended: all files are
// whole at any moment. A crash or exit() of a plugin is told. With `json` every end is a JSON document as well.
void watch_over_the_end(bool json);
bool interrupted();

// One line on standard error, and with --json {"error", "code"} on standard output; returns the code.
int fail(int code, const std::string& message);

// The one JSON document of a command.
void print_json(const nlohmann::json& document, int indent = 2);

// Whether what was printed has arrived; says so if not.
int flushed(int code);

}  // namespace hastings::app
