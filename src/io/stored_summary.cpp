#include "hastings/io/stored_summary.h"

#include <fmt/format.h>

#include <filesystem>

#include "hastings/core/error.h"
#include "hastings/core/fields.h"
#include "hastings/core/files.h"

namespace hastings {

using nlohmann::json;

void write_summary(const std::string& path, const StoredSummary& stored) {
  json full = stored.summary;
  full["options"] = stored.request.options;
  full["request"] = stored.request;
  full["seconds"] = stored.seconds;
  write_file(path, full.dump(2) + "\n");
}

StoredSummary load_summary(const std::string& folder) {
  const std::string path = folder + "/summary.json";
  if (!std::filesystem::exists(folder)) throw ConfigError(fmt::format("{}: there is no such run", folder));
  if (!std::filesystem::exists(path))
    throw ConfigError(fmt::format("{}: has no draws yet; run `hastings sample {}`", folder, folder));
  try {
    const json full = read_json(path);
    StoredSummary stored;
    full.get_to(stored.summary);
    full.at("request").get_to(stored.request);
    stored.request.options.validate();
    if (full.contains("seconds")) full.at("seconds").get_to(stored.seconds);
    return stored;
  } catch (const json::exception&) {
    throw DataError(fmt::format("{}: is not a hastings summary", path));
  } catch (const Error& error) {
    throw DataError(fmt::format("{}: is not a hastings summary ({})", path, error.what()));
  }
}

}  // namespace hastings
