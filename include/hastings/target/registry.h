// Targets by name, as the command line knows them.
#pragma once

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

// NAME, NAME:DIM where any dimension is possible (icg:100, gaussian:10), or logistic:FILE.
// An unknown name is a ConfigError that lists the nearest ones.
std::unique_ptr<Target> find_target(const std::string& spec);

}  // namespace hastings
