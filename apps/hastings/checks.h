// Checks of options, with errors in few words.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

namespace hastings::app {

inline CLI::Validator at_least(int least) {
  return {[least](std::string& text) {
            double value = 0;
            if (!CLI::detail::lexical_cast(text, value)) return fmt::format("{} is not a number", text);
            return value >= least ? std::string() : fmt::format("is {}, must be at least {}", text, least);
          },
          least > 0 ? "POSITIVE" : "NONNEGATIVE"};
}

}  // namespace hastings::app
