#include "hastings/core/json.h"

#include <fmt/format.h>

#include <cmath>

#include "hastings/core/error.h"
#include "hastings/core/files.h"

namespace hastings {

using nlohmann::json;

void check_json_depth(const std::string& file, std::string_view text) {
  int depth = 0;
  bool inside = false;  // of a string
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (inside) {
      if (c == '\\') ++i;
      inside = c != '"';
    } else if (c == '"') {
      inside = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth)
        throw DataError(fmt::format("{}: is nested deeper than {} levels; that is not read", file, kMaxDepth));
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

json parse_json(const std::string& file, std::string_view text, bool comments) {
  check_json_depth(file, text);
  try {
    return json::parse(text, nullptr, true, comments);
  } catch (const json::exception& error) {
    throw DataError(fmt::format("{}: is not JSON: {}", file, reason_of(error)));
  }
}

json read_json(const std::string& path) { return parse_json(path, read_file(path)); }

std::string reason_of(const json::exception& error) {
  const std::string text = error.what();
  const auto end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

int64_t whole_number(const std::string& what, const json& value) {
  const bool fits =
      value.is_number_integer() && (value.is_number_unsigned() ? value.get<uint64_t>() <= INT64_MAX : true);
  if (fits) return value.get<int64_t>();
  if (value.is_number_float()) {  // 1e3 is one
    const auto real = value.get<double>();
    if (real == std::floor(real) && std::fabs(real) < 9e15) return static_cast<int64_t>(real);
  }
  throw DataError(fmt::format("{} is {}, must be a whole number", what, value.dump().substr(0, 40)));
}

std::vector<int64_t> whole_numbers(const std::string& what, const json& value) {
  if (!value.is_array())
    throw DataError(fmt::format("{} is {}, must be a list of whole numbers", what, value.dump().substr(0, 40)));
  std::vector<int64_t> out;
  for (const auto& v : value) out.push_back(whole_number(what, v));
  return out;
}

}  // namespace hastings
