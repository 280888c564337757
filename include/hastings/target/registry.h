// Targets by name, as the command line knows them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hastings/target/target.h"

namespace hastings {

struct TargetInfo {
  std::string name;  // as given by the user: "mog6", "icg", "logistic:FILE"
  std::string summary;
};

std::vector<TargetInfo> list_targets();

struct TargetOptions {
  std::string stan_toolchain;                    // see StanOptions
  std::function<void(const std::string&)> tell;  // what takes time
};

// NAME, NAME:DIM where any dimension is possible (icg:100, gaussian:10), logistic:FILE, script:FILE, module:FILE,
// plugin:FILE, or "stan:FILE data=FILE". An unknown name is a ConfigError that lists the nearest ones.
std::unique_ptr<Target> find_target(const std::string& spec, const TargetOptions& options = {});

}  // namespace hastings
