// Checks of options, with errors in few words.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace hastings::app {

inline CLI::Validator between(double least, double most) {
  return {[least, most](std::string& text) {
            double value = 0;
            if (!CLI::detail::lexical_cast(text, value)) return fmt::format("{} is not a number", text);
            if (value > most) return fmt::format("is {}, must be at most {}", text, most);
            return value >= least ? std::string() : fmt::format("is {}, must be at least {}", text, least);
          },
          least > 0 ? "POSITIVE" : "NONNEGATIVE"};
}
inline CLI::Validator at_least(int least) { return between(least, std::numeric_limits<double>::infinity()); }

// What every number must be, whatever else: of its kind, finite, and within what its type holds.
inline void check_numbers(CLI::App& app) {
  auto whole = [](auto zero) {
    return [zero](std::string& text) {
      auto value = zero;
      const char *begin = text.data() + (text.starts_with('+') ? 1 : 0), *end = text.data() + text.size();
      const auto [at, error] = std::from_chars(begin, end, value);
      if (error == std::errc::result_out_of_range) return fmt::format("{} is too large", text);
      return error == std::errc() && at == end ? std::string() : fmt::format("{} is not a whole number", text);
    };
  };
  auto finite = [](std::string& text) {
    double value = 0;
    const bool number = CLI::detail::lexical_cast(text, value) && std::isfinite(value);
    return number ? std::string() : fmt::format("{} is not a finite number", text);
  };
  for (auto* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (type.starts_with("UINT")) {
      option->check(CLI::Validator(whole(uint64_t{0}), ""));
    } else if (type.starts_with("INT")) {
      option->check(CLI::Validator(whole(int64_t{0}), ""));
    } else if (type.starts_with("FLOAT")) {
      option->check(CLI::Validator(finite, ""));
    }
  }
  for (auto* command : app.get_subcommands({})) check_numbers(*command);
}

}  // namespace hastings::app
