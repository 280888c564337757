// Names that users give, and the values behind them: parsed once, at the edge.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hastings/core/error.h"

namespace hastings {

template <class T>
class Names {
 public:
  // `what` is named in the error.
  Names(std::string what, std::vector<std::pair<std::string, T>> all) : what_(std::move(what)), all_(std::move(all)) {}

  const std::string& name(const T& value) const {
    for (const auto& [name, own] : all_) {
      if (own == value) return name;
    }
    throw ConfigError(what_ + ": a value without a name");
  }
  const T& value(const std::string& name) const {
    for (const auto& [own, value] : all_) {
      if (own == name) return value;
    }
    throw ConfigError(what_ + " '" + name + "': must be " + list());
  }
  std::string list() const {  // "a, b or c"
    std::string text;
    for (size_t i = 0; i < all_.size(); ++i)
      text += (i == 0 ? "" : i + 1 < all_.size() ? ", " : " or ") + all_[i].first;
    return text;
  }

 private:
  std::string what_;
  std::vector<std::pair<std::string, T>> all_;
};

}  // namespace hastings
