// `hastings convert` and `hastings report`.
#pragma once

#include <string>
#include <vector>

#include "hastings/target/registry.h"

namespace hastings {

// Returns the files. `warn` is told if the target's observed data cannot be had.
std::vector<std::string> convert_run(const std::string& folder, const std::string& to, const TargetOptions& how,
                                     const std::function<void(const std::string&)>& warn);

// Returns the path of the page.
std::string report_run(const std::string& folder, const TargetOptions& how);

}  // namespace hastings
