#include "hastings/data/table.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "hastings/core/error.h"

namespace hastings {
namespace {

constexpr double kMaxColumns = 100000;
// A sparse table may be large where its file is: so many bytes for each one in it, or so many in any case.
constexpr uint64_t kMaxFactor = 1000, kAlways = uint64_t{64} << 20;

std::optional<double> parse_number(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  double value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// The first of the separators that stands outside quotes, from `at` on.
size_t find_outside(std::string_view line, std::string_view separators, size_t at) {
  bool quoted = false;
  for (; at < line.size(); ++at) {
    if (line[at] == '"') quoted = !quoted;
    if (!quoted && separators.find(line[at]) != std::string_view::npos) return at;
  }
  return std::string_view::npos;
}

// Comma, else semicolon, else white space; a field in quotes may hold any of them.
std::vector<std::string_view> split(std::string_view line) {
  const std::string_view separators = find_outside(line, ",", 0) != std::string_view::npos   ? ","
                                      : find_outside(line, ";", 0) != std::string_view::npos ? ";"
                                                                                             : " \t\r";
  const bool white = separators.size() > 1;
  std::vector<std::string_view> fields;
  for (size_t at = 0;;) {
    const size_t end = find_outside(line, separators, at);
    std::string_view field = trimmed(line.substr(at, end == std::string_view::npos ? end : end - at));
    const bool nothing = white && field.empty();  // between two blanks
    if (field.size() >= 2 && field.front() == '"' && field.back() == '"') field = field.substr(1, field.size() - 2);
    if (!nothing) fields.push_back(field);
    if (end == std::string_view::npos) return fields;
    at = end + 1;
  }
}

uint64_t file_size(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : size;
}

struct Rows {
  std::vector<std::vector<double>> values;  // label last
  std::vector<std::string> names;
};

[[noreturn]] void fail(const std::string& path, int64_t line, size_t column, const std::string& what) {
  throw DataError(fmt::format("{}, line {}, column {}: {}", path, line, column, what));
}

double number_at(const std::string& path, int64_t line, size_t column, std::string_view text) {
  const auto value = parse_number(text);
  if (!value) fail(path, line, column, fmt::format("'{}' is not a finite number", std::string(text.substr(0, 40))));
  return *value;
}

bool is_header(const std::vector<std::string_view>& fields) {
  for (const auto field : fields) {
    if (parse_number(field)) return false;
  }
  return true;
}

void append_dense(const std::string& path, int64_t line, const std::vector<std::string_view>& fields, Rows& rows) {
  std::vector<double> row;
  for (size_t i = 0; i < fields.size(); ++i) row.push_back(number_at(path, line, i + 1, fields[i]));
  const size_t expected =
      rows.values.empty() ? (rows.names.empty() ? row.size() : rows.names.size()) : rows.values[0].size();
  if (row.size() != expected) {
    fail(path, line, std::min(row.size(), expected) + 1,
         fmt::format("{} fields where {} were expected", row.size(), expected));
  }
  rows.values.push_back(std::move(row));
}

// "label 1:0.5 3:-1": one-based indices, missing ones are zero.
void append_sparse(const std::string& path, int64_t line, const std::vector<std::string_view>& fields, Rows& rows,
                   size_t& width) {
  std::vector<double> row;
  const double label = number_at(path, line, 1, fields[0]);
  for (size_t i = 1; i < fields.size(); ++i) {
    const auto colon = fields[i].find(':');
    if (colon == std::string_view::npos)
      fail(path, line, i + 1, fmt::format("'{}' is not index:value", std::string(fields[i])));
    const double index = number_at(path, line, i + 1, fields[i].substr(0, colon));
    if (index < 1 || index != std::floor(index) || index > kMaxColumns)
      fail(path, line, i + 1, fmt::format("the index must be a whole number from 1 to {}", kMaxColumns));
    const auto column = static_cast<size_t>(index);
    if (row.size() < column) row.resize(column, 0.0);
    row[column - 1] = number_at(path, line, i + 1, fields[i].substr(colon + 1));
  }
  width = std::max(width, row.size());
  row.push_back(label);
  rows.values.push_back(std::move(row));
}

Rows read_rows(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw DataError(fmt::format("{}: cannot be opened", path));
  Rows rows;
  std::string text;
  int64_t line = 0;
  bool sparse = false;
  size_t width = 0;
  uint64_t cells = 0;
  const auto check_size = [&, bytes = file_size(path)](uint64_t wanted) {
    if (wanted * sizeof(double) > std::max(kAlways, kMaxFactor * bytes))
      throw DataError(fmt::format("{}: its rows, written out, are more than {} times the file", path, kMaxFactor));
  };
  while (std::getline(file, text)) {
    ++line;
    std::string_view content = text;
    if (line == 1 && content.starts_with("\xef\xbb\xbf")) content.remove_prefix(3);  // a byte order mark
    content = trimmed(content);
    if (content.empty() || content.front() == '#') continue;
    const auto fields = split(content);
    if (rows.values.empty() && rows.names.empty()) {
      sparse = fields.size() > 1 && fields[1].find(':') != std::string_view::npos && parse_number(fields[0]);
      if (!sparse && is_header(fields)) {
        rows.names.assign(fields.begin(), fields.end());
        continue;
      }
    }
    if (sparse) {
      append_sparse(path, line, fields, rows, width);
      check_size(cells += rows.values.back().size());
    } else {
      append_dense(path, line, fields, rows);
    }
  }
  if (sparse) check_size(rows.values.size() * (width + 1));
  if (file.bad()) throw DataError(fmt::format("{}: reading failed after line {}", path, line));
  if (rows.values.empty()) throw DataError(fmt::format("{}: holds no rows", path));
  for (auto& row : rows.values) {  // pad sparse rows up to the widest, label last
    if (!sparse || row.size() == width + 1) continue;
    const double label = row.back();
    row.back() = 0;
    row.resize(width, 0.0);
    row.push_back(label);
  }
  return rows;
}

}  // namespace

namespace {
Tensor as_tensor(const Rows& rows) {
  const auto n = static_cast<int64_t>(rows.values.size()), columns = static_cast<int64_t>(rows.values[0].size());
  Tensor table = at::empty({n, columns}, at::kDouble);
  for (int64_t i = 0; i < n; ++i)
    std::copy_n(rows.values[static_cast<size_t>(i)].begin(), columns, table.data_ptr<double>() + i * columns);
  return table;
}
}  // namespace

Tensor read_table(const std::string& path) { return as_tensor(read_rows(path)); }

Tensor read_column(const std::string& path, const std::string& name) {
  const Rows rows = read_rows(path);
  const auto found = std::find(rows.names.begin(), rows.names.end(), name);
  if (found == rows.names.end()) {
    throw DataError(fmt::format(
        "{}: has no column '{}'{}", path, name,
        rows.names.empty() ? " (it has no header)" : fmt::format("; it has {}", fmt::join(rows.names, ", "))));
  }
  return as_tensor(rows).select(1, found - rows.names.begin()).contiguous();
}

LabelledTable read_labelled_table(const std::string& path) {
  const Rows rows = read_rows(path);
  if (rows.values[0].size() < 2)
    throw DataError(fmt::format("{}: one column only; the last is the label, so two are needed", path));
  const auto n = static_cast<int64_t>(rows.values.size());
  const auto columns = static_cast<int64_t>(rows.values[0].size()) - 1;
  LabelledTable table{at::empty({n, columns}, at::kDouble), at::empty({n}, at::kDouble), rows.names};
  if (!table.names.empty()) table.names.pop_back();
  std::set<double> classes;
  for (const auto& row : rows.values) classes.insert(row.back());
  if (classes.size() != 2) {
    throw DataError(fmt::format("{}: the label (column {}) has {} distinct value{}; two classes are needed", path,
                                columns + 1, classes.size(), classes.size() == 1 ? "" : "s"));
  }
  double* features = table.features.data_ptr<double>();
  double* labels = table.labels.data_ptr<double>();
  for (int64_t i = 0; i < n; ++i) {
    std::copy_n(rows.values[i].begin(), columns, features + i * columns);
    labels[i] = rows.values[i].back() == *classes.begin() ? 0.0 : 1.0;
  }
  const Tensor spread = std::get<0>(table.features.max(0)) - std::get<0>(table.features.min(0));
  for (int64_t j = 0; j < columns; ++j) {
    if (spread[j].item<double>() == 0) {
      throw DataError(fmt::format("{}: column {}{} is constant; remove it (a bias is added anyway)", path, j + 1,
                                  table.names.empty() ? "" : " (" + table.names[j] + ")"));
    }
  }
  return table;
}

Tensor standardised(const Tensor& features) {
  const Tensor centred = features - features.mean(0);
  return centred / centred.square().mean(0).sqrt();
}

}  // namespace hastings
