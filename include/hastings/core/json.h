// JSON from files that nobody vouches for.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace hastings {

constexpr int kMaxDepth = 1000;  // of what is nested in a file

// DataError if brackets are nested deeper than kMaxDepth; all that recurses over JSON relies on it.
void check_json_depth(const std::string& file, std::string_view text);

// DataError if the text is not JSON; `file` is for the message. Comments are allowed on request.
nlohmann::json parse_json(const std::string& file, std::string_view text, bool comments = false);
nlohmann::json read_json(const std::string& path);

// What the library says was wrong, without its prefix.
std::string reason_of(const nlohmann::json::exception& error);

// A whole number; DataError for 2.5, 1e30 or text. `what` names it in the message.
int64_t whole_number(const std::string& what, const nlohmann::json& value);
std::vector<int64_t> whole_numbers(const std::string& what, const nlohmann::json& value);  // a list of them

}  // namespace hastings
