// What users ask for by name. A registry is a list of entries that have a `name` and a `help` line; what is offered,
// the help and the error that lists all are made of it.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "hastings/core/error.h"

namespace hastings {

// "a, b or c"
inline std::string alternatives(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) out += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return out;
}

template <class Entry>
std::vector<std::string> names_of(const std::vector<Entry>& registry) {
  std::vector<std::string> out;
  for (const auto& entry : registry) out.emplace_back(entry.name);
  return out;
}

// "a (what it is), b (what it is)"
template <class Entry>
std::string help_of(const std::vector<Entry>& registry) {
  std::string out;
  for (const auto& entry : registry)
    out += (out.empty() ? "" : ", ") + std::string(entry.name) + " (" + std::string(entry.help) + ")";
  return out;
}

// ConfigError lists all of them; `what` is what the name is of.
template <class Entry>
const Entry& find_entry(const std::vector<Entry>& registry, const std::string& what, const std::string& name) {
  for (const auto& entry : registry) {
    if (name == entry.name) return entry;
  }
  throw ConfigError(what + " '" + name + "': must be " + alternatives(names_of(registry)));
}

// The entry of an enumerator; every enumerator has one.
template <class Entry, class Kind>
const Entry& entry_of(const std::vector<Entry>& registry, Kind kind) {
  for (const auto& entry : registry) {
    if (entry.kind == kind) return entry;
  }
  throw std::logic_error("a registry lacks one of its kinds");
}

}  // namespace hastings
