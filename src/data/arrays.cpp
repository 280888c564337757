#include "hastings/data/arrays.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>

#include "../core/arithmetic.h"
#include "hastings/core/error.h"
#include "hastings/data/table.h"
#include "zip_archive.h"

namespace hastings {
namespace {

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw DataError(fmt::format("{}: {}", name, what));
}

// The value behind 'key': in the header, a Python dictionary printed by NumPy.
std::string field(const std::string& header, const std::string& key, const std::string& end) {
  const auto at = header.find("'" + key + "':");
  if (at == std::string::npos) return {};
  const auto begin = header.find_first_not_of(' ', at + key.size() + 3);
  if (begin == std::string::npos) return {};
  return header.substr(begin, header.find_first_of(end, begin + 1) - begin);
}

std::vector<int64_t> parse_shape(const std::string& name, const std::string& text) {
  std::vector<int64_t> shape;
  const char *at = text.data(), *end = at + text.size();
  while (at != end) {
    if (!std::isdigit(static_cast<unsigned char>(*at))) {
      ++at;
      continue;
    }
    int64_t size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc() || shape.size() == 32) fail(name, "has an impossible shape");
    shape.push_back(size);
    at = next;
  }
  return shape;
}

at::ScalarType scalar_type(const std::string& descr) {
  static const std::map<std::string, at::ScalarType> types = {
      {"<f8", at::kDouble}, {"<f4", at::kFloat}, {"<i8", at::kLong}, {"<i4", at::kInt},
      {"<i2", at::kShort},  {"|i1", at::kChar},  {"|u1", at::kByte}, {"|b1", at::kBool},
  };
  const auto found = types.find(descr);
  return found == types.end() ? at::ScalarType::Undefined : found->second;
}

std::vector<int64_t> reversed(int64_t n) {
  std::vector<int64_t> order;
  while (n > 0) order.push_back(--n);
  return order;
}

// `size`: bytes of the whole, head and data.
Tensor parse_npy(const std::string& name, uint64_t size, const ByteReader& read) {
  const NpyHead head = read_npy_head(name, read);
  const auto type = scalar_type(head.type);
  if (type == at::ScalarType::Undefined)
    fail(name, fmt::format("has elements of type '{}', which is not read", head.type));
  std::vector<int64_t> shape = head.shape;
  if (head.fortran) std::reverse(shape.begin(), shape.end());
  const auto count = elements_of(shape);
  const auto wanted = count ? product(*count, static_cast<int64_t>(c10::elementSize(type))) : std::nullopt;
  if (!wanted) fail(name, "has an impossible shape");
  if (static_cast<uint64_t>(*wanted) > size - std::min(size, static_cast<uint64_t>(head.size)))
    fail(name, "ends before its data do");
  Tensor array = at::empty(shape, type);
  if (!read(static_cast<char*>(array.data_ptr()), static_cast<size_t>(array.numel()) * array.element_size()))
    fail(name, "ends before its data do");
  if (head.fortran) array = array.permute(reversed(array.dim()));
  return array.contiguous();
}

Tensor widened(const Tensor& array) { return array.to(array.is_floating_point() ? at::kDouble : at::kLong); }

}  // namespace

NpyHead read_npy_head(const std::string& name, const ByteReader& read) {
  char magic[8];
  if (!read(magic, 8) || std::memcmp(magic, "\x93NUMPY", 6) != 0) fail(name, "is not a NumPy array");
  const size_t width = magic[6] == 1 ? 2 : 4;  // of the text's length
  unsigned char size[4] = {};
  if (!read(reinterpret_cast<char*>(size), width)) fail(name, "ends in its header");
  const size_t length = size[0] | size[1] << 8 | size[2] << 16 | static_cast<size_t>(size[3]) << 24;
  if (length > 1 << 20) fail(name, "has a damaged header");
  std::string text(length, ' ');
  if (!read(text.data(), length)) fail(name, "ends in its header");
  NpyHead head;
  head.type = field(text, "descr", ",");
  if (head.type.size() > 2) head.type = head.type.substr(1, head.type.size() - 2);
  head.shape = parse_shape(name, field(text, "shape", ")"));
  head.fortran = field(text, "fortran_order", ",") == "True";
  head.size = static_cast<int64_t>(8 + width + length);
  return head;
}

Tensor read_npy_as_stored(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (!file || error) fail(path, "cannot be opened");
  return parse_npy(path, size, [&](char* data, size_t size) { return std::fread(data, 1, size, file.get()) == size; });
}

std::map<std::string, Tensor> read_npz_as_stored(const std::string& path) {
  int code = 0;
  const ZipArchive archive(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (!archive) fail(path, "is not a readable npz archive");
  std::map<std::string, Tensor> arrays;
  const zip_int64_t entries = zip_get_num_entries(archive.get(), 0);
  std::error_code error;
  ZipBudget budget(std::filesystem::file_size(path, error));
  for (zip_int64_t e = 0; e < entries; ++e) {
    zip_stat_t info;
    if (zip_stat_index(archive.get(), static_cast<zip_uint64_t>(e), 0, &info) != 0 || info.name == nullptr)
      fail(path, "is a damaged npz archive");
    std::string name = info.name;
    if (!budget.holds(info)) fail(path, fmt::format("'{}' claims to be larger than the file can hold", name));
    const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(
        zip_fopen_index(archive.get(), static_cast<zip_uint64_t>(e), 0), zip_fclose);
    if (!file) fail(path, fmt::format("'{}' cannot be read", name));
    const Tensor array = parse_npy(path + ":" + name, info.size, [&](char* data, size_t size) {
      while (size > 0) {
        const zip_int64_t n = zip_fread(file.get(), data, size);
        if (n <= 0) return false;
        data += n;
        size -= static_cast<size_t>(n);
      }
      return true;
    });
    if (name.size() > 4 && name.ends_with(".npy")) name.resize(name.size() - 4);
    arrays[name] = array;
  }
  return arrays;
}

Tensor read_npy(const std::string& path) { return widened(read_npy_as_stored(path)); }

std::map<std::string, Tensor> read_npz(const std::string& path) {
  auto arrays = read_npz_as_stored(path);
  for (auto& [name, array] : arrays) array = widened(array);
  return arrays;
}

Tensor read_array(const std::string& spec) {
  if (spec.ends_with(".npy")) return read_npy(spec);
  const auto npz = spec.rfind(".npz");
  if (npz != std::string::npos) {
    const std::string path = spec.substr(0, npz + 4), name = spec.substr(std::min(spec.size(), npz + 5));
    const auto arrays = read_npz(path);
    if (name.empty() && arrays.size() == 1) return arrays.begin()->second;
    const auto found = arrays.find(name);
    if (found != arrays.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [key, value] : arrays) names.push_back(key);
    fail(path, fmt::format("{}; it holds {}",
                           name.empty() ? "name an array, as in FILE.npz:NAME" : fmt::format("has no array '{}'", name),
                           fmt::join(names, ", ")));
  }
  const auto colon = spec.rfind(':');
  if (colon != std::string::npos && colon > spec.rfind('/') + 1 && colon + 1 < spec.size())
    return read_column(spec.substr(0, colon), spec.substr(colon + 1));
  const Tensor table = read_table(spec);
  return table.size(1) == 1 ? table.squeeze(1) : table;
}

}  // namespace hastings
