// What the builders of layers share: a layer's JSON, field by field, and fresh weights.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "hastings/core/error.h"
#include "hastings/core/json.h"
#include "layers.h"

namespace hastings {

// -1: more than fit into a number.
int64_t numel(const Shape& shape);

// One layer's JSON, read field by field; what nobody read is a misspelling.
class Fields {
 public:
  Fields(const nlohmann::json& j, std::string where) : json_(j), where_(std::move(where)) {
    if (!j.is_object()) fail("must be an object like {\"type\": \"relu\"}");
    type_ = get<std::string>("type");
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw ConfigError(fmt::format("{}{}: {}", where_, type_.empty() ? "" : " (" + type_ + ")", what));
  }
  bool has(const char* key) const { return json_.contains(key); }
  template <class T>
  T get(const char* key) {
    used_.insert(key);
    if (!json_.contains(key)) fail(fmt::format("needs '{}'", key));
    try {
      if constexpr (std::is_same_v<T, int64_t>) {
        return whole_number(fmt::format("'{}'", key), json_[key]);
      } else if constexpr (std::is_same_v<T, Shape>) {
        return whole_numbers(fmt::format("'{}'", key), json_[key]);
      } else {
        return json_[key].get<T>();
      }
    } catch (const nlohmann::json::exception&) {
      fail(fmt::format("'{}' has the value {}, which is of the wrong kind", key, json_[key].dump().substr(0, 60)));
    } catch (const DataError& error) {
      fail(error.what());
    }
  }
  template <class T>
  T get(const char* key, T otherwise) {
    used_.insert(key);
    return json_.contains(key) ? get<T>(key) : otherwise;
  }
  int64_t positive(const char* key) { return within(key, get<int64_t>(key), 1); }
  int64_t positive(const char* key, int64_t otherwise) {
    return has(key) ? positive(key) : (used_.insert(key), otherwise);
  }
  int64_t not_negative(const char* key, int64_t otherwise) { return within(key, get<int64_t>(key, otherwise), 0); }
  void finish() const {
    for (const auto& [key, value] : json_.items()) {
      if (!used_.contains(key) && key != "comment") fail(fmt::format("does not know '{}'", key));
    }
  }
  const std::string& type() const { return type_; }
  const std::string& where() const { return where_; }

 private:
  int64_t within(const char* key, int64_t value, int64_t least) const {
    constexpr int64_t kMost = 1 << 20;
    if (value < least || value > kMost)
      fail(fmt::format("'{}' is {}: must be from {} to {}", key, value, least, kMost));
    return value;
  }
  const nlohmann::json& json_;
  std::string where_, type_;
  std::set<std::string> used_;
};

// What goes in must be [channels, height, width].
void need_image(const Fields& f, const Shape& shape);

// (n + 2 padding - kernel) / stride + 1, checked.
int64_t windows(const Fields& f, int64_t n, int64_t kernel, int64_t stride, int64_t padding);

// Weights as the network's `init` says; ConfigError where a network asks for more than it may have.
Tensor fresh(const Init& init, const Shape& shape, int64_t fan_in, double mean, double sd);
Tensor fresh_bias(const Init& init, int64_t size, int64_t fan_in);

}  // namespace hastings
