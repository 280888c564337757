// One description of a struct's fields serves saving, loading, JSON and comparing, so that these cannot drift apart:
//
//   struct Options {
//     double rate = 1;
//     int64_t steps = 10;
//     template <class Archive>
//     void fields(Archive& a) {
//       a("rate", rate);
//       a("steps", steps);
//     }
//   };
//
// As JSON: `json j = options`, `j.get<Options>()`. As tensors by name, for states that go to disk bit for bit:
// to_tensors() and from_tensors(). `a.later("name", x)` is a field that stored files of earlier versions lack; it keeps
// its default there. A stream is stored as its position, an enum by its to_string() and parse().
#pragma once

#include <ATen/ATen.h>

#include <concepts>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "hastings/core/error.h"
#include "hastings/core/json.h"
#include "hastings/core/random.h"
#include "hastings/core/tensor.h"

namespace hastings {

using TensorMap = std::map<std::string, Tensor>;

namespace fields_detail {

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

struct Probe {
  template <class T>
  void operator()(const char*, T&) {}
  template <class T>
  void later(const char*, T&) {}
};

}  // namespace fields_detail

template <class T>
concept Described = requires(T& t, fields_detail::Probe& a) {
  t.fields(a);
};

// An enum with a name for each value.
template <class T>
concept NamedEnum = std::is_enum_v<T> && requires(T& t, const std::string& name) {
  { to_string(t) } -> std::convertible_to<std::string>;
  parse(name, t);
};

// --- JSON ---

class JsonWriter {
 public:
  explicit JsonWriter(nlohmann::json& to) : to_(to) { to_ = nlohmann::json::object(); }
  template <class T>
  void operator()(const char* name, const T& value) {
    if constexpr (NamedEnum<T>) {
      to_[name] = to_string(value);
    } else if constexpr (fields_detail::IsOptional<T>::value) {
      to_[name] = value ? nlohmann::json(*value) : nlohmann::json();
    } else {
      to_[name] = value;
    }
  }
  template <class T>
  void later(const char* name, const T& value) {
    (*this)(name, value);
  }

 private:
  nlohmann::json& to_;
};

namespace fields_detail {

// JSON knows no NaN and no infinity: null stands for them, and for nothing.
template <class T>
void read_value(const char* name, const nlohmann::json& from, T& value) {
  if constexpr (NamedEnum<T>) {
    parse(from.get<std::string>(), value);
  } else if constexpr (std::floating_point<T>) {
    value = from.is_null() ? std::numeric_limits<T>::quiet_NaN() : from.get<T>();
  } else if constexpr (std::same_as<T, uint64_t>) {
    value = from.is_number_unsigned() ? from.get<uint64_t>() : static_cast<uint64_t>(whole_number(name, from));
  } else if constexpr (std::integral<T> && !std::same_as<T, bool>) {
    const int64_t number = whole_number(name, from);
    if (!std::in_range<T>(number)) throw DataError(std::string(name) + " is out of range");
    value = static_cast<T>(number);
  } else if constexpr (IsOptional<T>::value) {
    value.reset();
    if (!from.is_null()) read_value(name, from, value.emplace());
  } else if constexpr (requires { value.emplace_back(); } && !std::same_as<T, std::string>) {
    if (!from.is_array()) throw DataError(std::string(name) + " is not a list");
    value.clear();
    for (const auto& element : from) {
      typename T::value_type own{};
      read_value(name, element, own);
      value.push_back(std::move(own));
    }
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    if (!from.is_array() || from.size() != value.size()) throw DataError(std::string(name) + " has the wrong length");
    for (size_t i = 0; i < value.size(); ++i) read_value(name, from[i], value[i]);
  } else {
    from.get_to(value);
  }
}

}  // namespace fields_detail

class JsonReader {
 public:
  explicit JsonReader(const nlohmann::json& from) : from_(from) {}
  template <class T>
  void operator()(const char* name, T& value) {
    fields_detail::read_value(name, from_.at(name), value);
  }
  template <class T>
  void later(const char* name, T& value) {
    if (from_.contains(name)) (*this)(name, value);
  }

 private:
  const nlohmann::json& from_;
};

template <Described T>
void to_json(nlohmann::json& to, const T& value) {
  JsonWriter writer(to);
  const_cast<T&>(value).fields(writer);  // writers do not write to it
}
template <Described T>
void from_json(const nlohmann::json& from, T& value) {
  JsonReader reader(from);
  value.fields(reader);
}

// --- Tensors by name ---

template <Described T>
TensorMap to_tensors(const T& value, const std::string& prefix = "");
template <Described T>
void from_tensors(const TensorMap& from, T& value, const std::string& prefix = "");

namespace fields_detail {

// Columns of a list of structs: numbers as one tensor a field, texts joined.
struct Columns {
  std::map<std::string, std::vector<double>> numbers;
  std::map<std::string, std::string> texts;
};
struct ColumnWriter {
  Columns& to;
  template <class T>
  void operator()(const char* name, const T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      to.numbers[name].push_back(static_cast<double>(value));
    } else {
      to.texts[name] += value + "\n";
    }
  }
  template <class T>
  void later(const char* name, const T& value) {
    (*this)(name, value);
  }
};
struct ColumnReader {
  Columns& from;  // texts are eaten from the front
  size_t row;
  template <class T>
  void operator()(const char* name, T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      value = static_cast<T>(from.numbers[name].at(row));
    } else {
      std::string& text = from.texts[name];
      const size_t end = text.find('\n');
      if (end == std::string::npos) throw DataError("a stored list is damaged");
      value = text.substr(0, end);
      text.erase(0, end + 1);
    }
  }
  template <class T>
  void later(const char* name, T& value) {
    (*this)(name, value);
  }
};

class TensorWriter {
 public:
  TensorWriter(TensorMap& to, std::string prefix) : to_(to), prefix_(std::move(prefix)) {}
  template <class T>
  void operator()(const char* name, const T& value) {
    const std::string full = prefix_ + name;
    if constexpr (std::same_as<T, Tensor>) {
      to_[full] = value.clone();
    } else if constexpr (std::same_as<T, Stream>) {
      to_[full] = at::scalar_tensor(static_cast<int64_t>(value.position()), at::kLong);
    } else if constexpr (std::floating_point<T>) {
      to_[full] = at::scalar_tensor(value, at::kDouble);
    } else if constexpr (std::integral<T> || std::is_enum_v<T>) {
      to_[full] = at::scalar_tensor(static_cast<int64_t>(value), at::kLong);
    } else if constexpr (std::same_as<T, std::string>) {
      to_[full] = at::tensor(std::vector<int64_t>(value.begin(), value.end()), at::kLong);
    } else if constexpr (std::same_as<T, std::vector<double>>) {
      to_[full] = at::tensor(value, at::kDouble);
    } else if constexpr (Described<T>) {
      to_.merge(to_tensors(value, full + "."));
    } else {  // a list of structs
      Columns columns;
      ColumnWriter writer{columns};
      for (const auto& row : value)
        const_cast<std::remove_const_t<std::remove_reference_t<decltype(row)>>&>(row).fields(writer);
      (*this)((std::string(name) + ".count").c_str(), static_cast<int64_t>(value.size()));
      for (const auto& [field, numbers] : columns.numbers) to_[full + "." + field] = at::tensor(numbers, at::kDouble);
      for (const auto& [field, text] : columns.texts) (*this)((std::string(name) + "." + field).c_str(), text);
    }
  }
  template <class T>
  void later(const char* name, const T& value) {
    (*this)(name, value);
  }

 private:
  TensorMap& to_;
  std::string prefix_;
};

class TensorReader {
 public:
  TensorReader(const TensorMap& from, std::string prefix) : from_(from), prefix_(std::move(prefix)) {}
  template <class T>
  void operator()(const char* name, T& value) {
    const std::string full = prefix_ + name;
    if constexpr (std::same_as<T, Tensor>) {
      value = find(full).clone();
    } else if constexpr (std::same_as<T, Stream>) {
      value.seek(static_cast<uint64_t>(number<int64_t>(full, at::kLong)));
    } else if constexpr (std::floating_point<T>) {
      value = number<double>(full, at::kDouble);
    } else if constexpr (std::integral<T> || std::is_enum_v<T>) {
      value = static_cast<T>(number<int64_t>(full, at::kLong));
    } else if constexpr (std::same_as<T, std::string>) {
      const Tensor codes = typed(full, at::kLong);
      value.assign(codes.data_ptr<int64_t>(), codes.data_ptr<int64_t>() + codes.numel());
    } else if constexpr (std::same_as<T, std::vector<double>>) {
      const Tensor numbers = typed(full, at::kDouble);
      value.assign(numbers.data_ptr<double>(), numbers.data_ptr<double>() + numbers.numel());
    } else if constexpr (Described<T>) {
      from_tensors(from_, value, full + ".");
    } else {
      read_list(full, value);
    }
  }
  template <class T>
  void later(const char* name, T& value) {
    if (from_.contains(prefix_ + name)) (*this)(name, value);
  }

 private:
  const Tensor& find(const std::string& full) const {
    const auto found = from_.find(full);
    if (found == from_.end())
      throw DataError("the stored state has no '" + full + "'; it is damaged, or of another version");
    return found->second;
  }
  Tensor typed(const std::string& full, at::ScalarType type) const {
    const Tensor& found = find(full);
    if (found.scalar_type() != type) throw DataError("the stored state is damaged: '" + full + "'");
    return found.contiguous();
  }
  template <class N>
  N number(const std::string& full, at::ScalarType type) const {
    const Tensor found = typed(full, type);
    if (found.numel() != 1) throw DataError("the stored state is damaged: '" + full + "'");
    return found.item<N>();
  }
  template <class List>
  void read_list(const std::string& full, List& value) {
    Columns columns;
    const auto count = number<int64_t>(full + ".count", at::kLong);
    for (auto at = from_.lower_bound(full + "."); at != from_.end() && at->first.starts_with(full + "."); ++at) {
      const std::string field = at->first.substr(full.size() + 1);
      if (at->second.scalar_type() == at::kDouble) {
        const Tensor numbers = at->second.contiguous();
        columns.numbers[field].assign(numbers.data_ptr<double>(), numbers.data_ptr<double>() + numbers.numel());
      } else if (field != "count") {
        (*this)(at->first.substr(prefix_.size()).c_str(), columns.texts[field]);
      }
    }
    value.clear();
    try {
      for (int64_t i = 0; i < count; ++i) {
        ColumnReader reader{columns, static_cast<size_t>(i)};
        value.emplace_back().fields(reader);
      }
    } catch (const std::out_of_range&) {
      throw DataError("the stored state is damaged: '" + full + "'");
    }
  }

  const TensorMap& from_;
  std::string prefix_;
};

}  // namespace fields_detail

template <Described T>
TensorMap to_tensors(const T& value, const std::string& prefix) {
  TensorMap to;
  fields_detail::TensorWriter writer(to, prefix);
  const_cast<T&>(value).fields(writer);
  return to;
}
template <Described T>
void from_tensors(const TensorMap& from, T& value, const std::string& prefix) {
  fields_detail::TensorReader reader(from, prefix);
  value.fields(reader);
}

}  // namespace hastings
