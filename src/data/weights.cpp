#include "hastings/data/weights.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "pickle.h"
#include "zip_archive.h"

namespace hastings {
namespace {

using nlohmann::json;
using Kind = Pickled::Kind;

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw DataError(fmt::format("{}: {}", path, what));
}

struct Type {
  const char* safetensors;
  const char* storage;  // PyTorch's class
  at::ScalarType type;
};
constexpr Type kTypes[] = {
    {"F32", "FloatStorage", at::kFloat}, {"F64", "DoubleStorage", at::kDouble},
    {"F16", "HalfStorage", at::kHalf},   {"BF16", "BFloat16Storage", at::kBFloat16},
    {"I64", "LongStorage", at::kLong},   {"I32", "IntStorage", at::kInt},
    {"I16", "ShortStorage", at::kShort}, {"I8", "CharStorage", at::kChar},
    {"U8", "ByteStorage", at::kByte},    {"BOOL", "BoolStorage", at::kBool},
};

int64_t count_of(const std::string& path, const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t n : shape) {
    if (n < 0 || (n > 0 && count > (int64_t{1} << 40) / n)) fail(path, "has a tensor of impossible shape");
    count *= n;
  }
  return count;
}

Weights read_safetensors(const std::string& path, std::string_view bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  if (length > bytes.size() - 8) fail(path, "is not a sound safetensors file: its header is longer than the file");
  const json header = json::parse(bytes.substr(8, length), nullptr, false);
  if (!header.is_object()) fail(path, "is not a sound safetensors file: its header is not JSON");
  const std::string_view data = bytes.substr(8 + length);
  Weights out;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    try {
      const auto dtype = entry.at("dtype").get<std::string>();
      const auto shape = entry.at("shape").get<std::vector<int64_t>>();
      const auto begin = entry.at("data_offsets").at(0).get<uint64_t>(),
                 end = entry.at("data_offsets").at(1).get<uint64_t>();
      const Type* type = nullptr;
      for (const auto& t : kTypes) {
        if (dtype == t.safetensors) type = &t;
      }
      if (type == nullptr) fail(path, fmt::format("tensor '{}' has type {}, which is not read", name, dtype));
      Tensor value = at::empty(shape, type->type);
      const auto wanted = static_cast<uint64_t>(count_of(path, shape)) * value.element_size();
      if (begin > end || end > data.size() || end - begin != wanted)
        fail(path, fmt::format("tensor '{}' does not lie within the file", name));
      if (wanted > 0) std::memcpy(value.data_ptr(), data.data() + begin, wanted);
      out[name] = value;
    } catch (const json::exception&) {
      fail(path, fmt::format("the entry of tensor '{}' is damaged", name));
    }
  }
  return out;
}

// Storages by key: raw bytes.
using Storages = std::map<std::string, std::string>;

struct StorageRef {
  at::ScalarType type;
  std::string key;
  int64_t count;
};

// ('storage', torch.FloatStorage, key, location, count, view)
StorageRef storage_of(const std::string& path, const PickledRef& value) {
  if (value->kind != Kind::kPersistent || value->items[0]->items.size() < 5)
    fail(path, "has a tensor without a storage");
  const auto& id = value->items[0]->items;
  for (const auto& t : kTypes) {
    if (id[1]->text == std::string("torch.") + t.storage) return {t.type, id[2]->text, id[4]->number};
  }
  fail(path, fmt::format("has a tensor of type {}, which is not read", id[1]->text));
}

// _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)
Tensor tensor_of(const std::string& path, const PickledRef& call, const Storages& storages) {
  if (call->items.size() < 4) fail(path, "has a damaged tensor");
  const StorageRef ref = storage_of(path, call->items[0]);
  std::vector<int64_t> shape, stride;
  for (const auto& n : call->items[2]->items) shape.push_back(n->number);
  for (const auto& n : call->items[3]->items) stride.push_back(n->number);
  const auto found = storages.find(ref.key);
  if (found == storages.end()) fail(path, fmt::format("has no data for storage '{}'", ref.key));
  const int64_t offset = call->items[1]->number;
  int64_t last = offset;
  const int64_t count = count_of(path, shape);
  if (shape.size() != stride.size()) fail(path, "has a damaged tensor");
  for (size_t i = 0; i < shape.size(); ++i) {
    if (stride[i] < 0 || stride[i] > (int64_t{1} << 40)) fail(path, "has a damaged tensor");
    last += (shape[i] - 1) * stride[i];
  }
  const auto width = static_cast<int64_t>(c10::elementSize(ref.type));
  if (count > 0 && (offset < 0 || last < offset || (last + 1) * width > static_cast<int64_t>(found->second.size())))
    fail(path, "has a tensor that reaches beyond its data");
  if (count == 0) return at::empty(shape, ref.type);
  void* data = const_cast<char*>(found->second.data());
  return at::from_blob(data, {static_cast<int64_t>(found->second.size()) / width}, ref.type)
      .as_strided(shape, stride, offset)
      .clone(at::MemoryFormat::Contiguous);
}

// All tensors below `value`; `name` is where they hang.
void collect(const std::string& path, const std::string& name, const PickledRef& value, const Storages& storages,
             int depth, Weights& out) {
  if (depth > 32) return;
  if (value->kind == Kind::kCall) {
    const auto& callee = value->text;
    if (callee == "torch._utils._rebuild_tensor_v2" || callee == "torch._utils._rebuild_tensor") {
      out[name] = tensor_of(path, value, storages);
      return;
    }
    if (callee == "torch._utils._rebuild_parameter" && !value->items.empty()) {
      collect(path, name, value->items[0], storages, depth + 1, out);
      return;
    }
  }
  for (const auto& [key, item] : value->entries) {
    const std::string part = key->kind == Kind::kInt ? std::to_string(key->number) : key->text;
    collect(path, name.empty() ? part : name + "." + part, item, storages, depth + 1, out);
  }
}

Weights read_zip(const std::string& path) {
  int code = 0;
  const ZipArchive archive(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (!archive) fail(path, "is a damaged zip archive");
  std::string pickle;
  Storages storages;
  bool module = false;
  for (zip_int64_t e = 0; e < zip_get_num_entries(archive.get(), 0); ++e) {
    zip_stat_t info;
    if (zip_stat_index(archive.get(), static_cast<zip_uint64_t>(e), 0, &info) != 0)
      fail(path, "is a damaged zip archive");
    const std::string entry = info.name;
    const auto slash = entry.find('/');
    const std::string inside = slash == std::string::npos ? entry : entry.substr(slash + 1);
    module |= inside.starts_with("code/");
    const bool data = inside.starts_with("data/");
    if (inside != "data.pkl" && !data) continue;
    const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(
        zip_fopen_index(archive.get(), static_cast<zip_uint64_t>(e), 0), zip_fclose);
    std::string content(info.size, '\0');
    if (!file || zip_fread(file.get(), content.data(), info.size) != static_cast<zip_int64_t>(info.size))
      fail(path, fmt::format("'{}' in it cannot be read", entry));
    (data ? storages[inside.substr(5)] : pickle) = std::move(content);
  }
  if (module) fail(path, "is a TorchScript module, not a file of weights; give it as module:FILE");
  if (pickle.empty()) fail(path, "is a zip archive but not one of PyTorch's (it has no data.pkl)");
  std::string_view rest = pickle;
  Weights out;
  collect(path, "", read_pickle(path, rest), storages, 0, out);
  return out;
}

// Before 2020: pickles of a magic number, the protocol, facts about the system, the object and the list of storage
// keys; then for each storage a 64-bit count and its bytes.
Weights read_legacy(const std::string& path, std::string_view bytes) {
  std::string_view rest = bytes;
  for (int i = 0; i < 3; ++i) read_pickle(path, rest);
  const PickledRef object = read_pickle(path, rest), keys = read_pickle(path, rest);
  std::map<std::string, at::ScalarType> types;
  std::set<const Pickled*> seen;
  std::function<void(const PickledRef&, int)> look = [&](const PickledRef& value, int depth) {
    if (depth > 64 || !seen.insert(value.get()).second) return;
    if (value->kind == Kind::kPersistent) {
      const StorageRef ref = storage_of(path, value);
      types[ref.key] = ref.type;
      return;
    }
    for (const auto& item : value->items) look(item, depth + 1);
    for (const auto& [key, item] : value->entries) look(item, depth + 1);
  };
  look(object, 0);
  Storages storages;
  for (const auto& key : keys->items) {
    const auto type = types.find(key->text);
    if (type == types.end() || rest.size() < 8) fail(path, "is not a sound file of weights");
    uint64_t count = 0;
    std::memcpy(&count, rest.data(), 8);
    const uint64_t width = c10::elementSize(type->second);
    if (count > (rest.size() - 8) / width) fail(path, "ends before its data do");
    storages[key->text] = std::string(rest.substr(8, count * width));
    rest.remove_prefix(8 + count * width);
  }
  Weights out;
  collect(path, "", object, storages, 0, out);
  return out;
}

}  // namespace

Weights read_weights(const std::string& path) {
  const std::string bytes = read_file(path);
  if (bytes.size() < 16) fail(path, "is too short to hold weights");
  Weights out;
  if (bytes.starts_with("PK")) {
    out = read_zip(path);
  } else if (bytes[8] == '{') {
    out = read_safetensors(path, bytes);
  } else if (bytes[0] == '\x80') {
    out = read_legacy(path, bytes);
  } else {
    fail(path, "is neither safetensors nor one of PyTorch's files of weights");
  }
  if (out.empty()) fail(path, "holds no tensors");
  return out;
}

void write_safetensors(const std::string& path, const Weights& weights) {
  json header = json::object();
  uint64_t at = 0;
  std::vector<Tensor> values;
  for (const auto& [name, tensor] : weights) {
    const Tensor value = tensor.detach().cpu().contiguous();
    const Type* type = nullptr;
    for (const auto& t : kTypes) {
      if (value.scalar_type() == t.type) type = &t;
    }
    const uint64_t size = static_cast<uint64_t>(value.numel()) * value.element_size();
    header[name] = {{"dtype", type->safetensors}, {"shape", value.sizes().vec()}, {"data_offsets", {at, at + size}}};
    at += size;
    values.push_back(value);
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  AtomicFile file(path);
  file.write({reinterpret_cast<const char*>(&length), 8});
  file.write(text);
  for (const auto& v : values)
    file.write({static_cast<const char*>(v.data_ptr()), static_cast<size_t>(v.numel()) * v.element_size()});
  file.commit();
}

}  // namespace hastings
