#include "description.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "hastings/core/error.h"
#include "hastings/core/json.h"
#include "hastings/data/arrays.h"
#include "hastings/target/target.h"

namespace hastings {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

[[noreturn]] void wrong(const std::string& path, const std::string& what) {
  throw DataError(fmt::format("{}: {}", path, what));
}

Parameter parse_parameter(const std::string& path, const json& item) {
  static const std::map<std::string, Constraint> constraints = {
      {"free", Constraint::kFree},       {"positive", Constraint::kLower},    {"lower", Constraint::kLower},
      {"upper", Constraint::kUpper},     {"interval", Constraint::kInterval}, {"simplex", Constraint::kSimplex},
      {"ordered", Constraint::kOrdered},
  };
  Parameter p;
  if (item.is_string()) {
    p.name = item.get<std::string>();
    return p;
  }
  if (!item.is_object()) wrong(path, "an element of \"parameters\" is neither a name nor an object");
  for (const auto& [key, value] : item.items()) {
    if (key == "name") {
      p.name = value.get<std::string>();
    } else if (key == "size") {
      p.size = whole_number(fmt::format("{}: parameter '{}': size", path, p.name), value);
      if (p.size < 1) wrong(path, fmt::format("parameter '{}': size is {}, must be at least 1", p.name, p.size));
    } else if (key == "low") {
      p.low = value.get<double>();
    } else if (key == "high") {
      p.high = value.get<double>();
    } else if (key == "constraint") {
      const auto found = constraints.find(value.get<std::string>());
      if (found == constraints.end())
        wrong(path,
              fmt::format("unknown constraint '{}'; there are free, positive, lower, upper, interval, simplex, ordered",
                          value.get<std::string>()));
      p.constraint = found->second;
    } else {
      wrong(path, fmt::format("a parameter has an unknown field \"{}\"", key));
    }
  }
  return p;
}

Tensor parse_numbers(const std::string& path, const std::string& name, const json& value) {
  std::vector<double> numbers;
  std::vector<int64_t> shape;
  const std::function<void(const json&, size_t)> walk = [&](const json& v, size_t depth) {
    if (v.is_number()) {
      if (depth != shape.size()) wrong(path, fmt::format("data '{}' is ragged", name));
      numbers.push_back(v.get<double>());
      return;
    }
    if (!v.is_array()) wrong(path, fmt::format("data '{}' is neither a file name nor numbers", name));
    const auto size = static_cast<int64_t>(v.size());
    if (depth == shape.size() && numbers.empty()) shape.push_back(size);
    if (depth >= shape.size() || shape[depth] != size) wrong(path, fmt::format("data '{}' is ragged", name));
    for (const auto& element : v) walk(element, depth + 1);
  };
  walk(value, 0);
  return at::tensor(numbers, at::kDouble).reshape(shape);
}

// "FILE", numbers, or {"file": "FILE", "type": "int"} and {"values": numbers, "type": "int"}: whole numbers, for
// indices.
Tensor parse_data(const std::string& path, const std::string& name, const json& value) {
  if (value.is_string()) return read_array((fs::path(path).parent_path() / value.get<std::string>()).string());
  if (!value.is_object()) return parse_numbers(path, name, value);
  for (const auto& [key, unused] : value.items()) {
    if (key != "file" && key != "values" && key != "type")
      wrong(path, fmt::format("data '{}' has an unknown field \"{}\"; there are file, values, type", name, key));
  }
  if (value.contains("file") == value.contains("values"))
    wrong(path, fmt::format("data '{}' needs either \"file\" or \"values\"", name));
  const Tensor t = parse_data(path, name, value.contains("file") ? value["file"] : value["values"]);
  const std::string type = value.value("type", "double");
  if (type != "int" && type != "double")
    wrong(path, fmt::format("data '{}': type '{}' must be int or double", name, type));
  if (type == "int" && t.is_floating_point() && !at::equal(t, t.round()))
    wrong(path, fmt::format("data '{}' is not of whole numbers", name));
  return t.to(type == "int" ? at::kLong : at::kDouble);
}

}  // namespace

Description read_description(const std::string& model) {
  Description d;
  d.path = fs::path(model).replace_extension(".json").string();
  if (!fs::exists(d.path)) return d;
  try {
    const json root = read_json(d.path);
    if (!root.is_object()) wrong(d.path, "is not a JSON object");
    for (const auto& [key, value] : root.items()) {
      if (key == "dim") {
        const int64_t dim = whole_number(d.path + ": dim", value);
        if (dim < 1 || dim > kMaxDim) wrong(d.path, fmt::format("dim is {}, must be from 1 to {}", dim, kMaxDim));
        if (!root.contains("parameters")) d.parameters = {{"x", dim, Constraint::kFree, 0, 1}};
      } else if (key == "parameters") {
        if (!value.is_array()) wrong(d.path, "\"parameters\" is not a list");
        for (const auto& item : value) d.parameters.push_back(parse_parameter(d.path, item));
      } else if (key == "data") {
        for (const auto& [name, source] : value.items()) {
          d.data[name] = parse_data(d.path, name, source);
        }
      } else if (key == "observed") {
        d.observed = value.get<std::vector<std::string>>();
      } else if (key == "dtype") {
        const auto type = value.get<std::string>();
        if (type != "float" && type != "double") wrong(d.path, fmt::format("dtype '{}' must be float or double", type));
        d.dtype = type == "float" ? at::kFloat : at::kDouble;
        d.has_dtype = true;
      } else {
        wrong(d.path, fmt::format("unknown field \"{}\"; there are dim, parameters, data, observed, dtype", key));
      }
    }
    if (root.contains("dim") && root.contains("parameters")) {
      const int64_t dim = Constraints(d.parameters).outputs();
      const int64_t said = whole_number("dim", root["dim"]);
      if (dim != said) wrong(d.path, fmt::format("dim is {}, but the parameters have {} elements", said, dim));
    }
  } catch (const json::exception& error) {
    wrong(d.path, fmt::format("a field has the wrong type: {}", reason_of(error)));
  } catch (const ConfigError& error) {
    wrong(d.path, error.what());
  }
  return d;
}

}  // namespace hastings
