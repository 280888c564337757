#include "hastings/data/weights.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "../core/arithmetic.h"
#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/core/json.h"
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

const Type* type_named(const std::string& name) {
  for (const auto& t : kTypes) {
    if (name == t.safetensors || name == std::string("torch.") + t.storage) return &t;
  }
  return nullptr;
}

int64_t count_of(const std::string& path, const std::vector<int64_t>& shape) {
  const auto count = elements_of(shape);
  if (!count || shape.size() > 64) fail(path, "has a tensor of impossible shape");
  return *count;
}

// An offset in the file: not negative, and a whole number.
uint64_t offset_of(const json& value) {
  if (!value.is_number_unsigned()) throw std::out_of_range("offset");
  return value.get<uint64_t>();
}

Weights read_safetensors(const std::string& path, std::string_view bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  if (length > bytes.size() - 8) fail(path, "is not a sound safetensors file: its header is longer than the file");
  const std::string_view text = bytes.substr(8, length), data = bytes.substr(8 + length);
  check_json_depth(path, text);
  const json header = json::parse(text, nullptr, false);
  if (!header.is_object()) fail(path, "is not a sound safetensors file: its header is not JSON");
  Weights out;
  uint64_t taken = 0;  // tensors do not overlap: together they are no larger than the data
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    try {
      const auto dtype = entry.at("dtype").get<std::string>();
      std::vector<int64_t> shape;
      for (const auto& n : entry.at("shape")) shape.push_back(whole_number("a size", n));
      const uint64_t begin = offset_of(entry.at("data_offsets").at(0)), end = offset_of(entry.at("data_offsets").at(1));
      const Type* type = type_named(dtype);
      if (type == nullptr) fail(path, fmt::format("tensor '{}' has type {}, which is not read", name, dtype));
      const auto wanted = product(count_of(path, shape), static_cast<int64_t>(c10::elementSize(type->type)));
      if (!wanted || begin > end || end > data.size() || end - begin != static_cast<uint64_t>(*wanted))
        fail(path, fmt::format("tensor '{}' does not lie within the file", name));
      if ((taken += end - begin) > data.size()) fail(path, fmt::format("tensor '{}' overlaps another", name));
      Tensor value = at::empty(shape, type->type);
      if (*wanted > 0) std::memcpy(value.data_ptr(), data.data() + begin, static_cast<size_t>(*wanted));
      out[name] = value;
    } catch (const json::exception&) {
      fail(path, fmt::format("the entry of tensor '{}' is damaged", name));
    } catch (const std::out_of_range&) {
      fail(path, fmt::format("tensor '{}' does not lie within the file", name));
    }
  }
  return out;
}

// Storages by key: raw bytes.
using Storages = std::map<std::string, std::string>;

struct StorageRef {
  at::ScalarType type;
  std::string key;
};

// ('storage', torch.FloatStorage, key, location, count, view)
StorageRef storage_of(const std::string& path, const Pickled& value) {
  if (value.kind != Kind::kPersistent || value.items[0]->items.size() < 5) fail(path, "has a tensor without a storage");
  const auto& id = value.items[0]->items;
  if (const Type* type = type_named(id[1]->text)) return {type->type, id[2]->text};
  fail(path, fmt::format("has a tensor of type {}, which is not read", id[1]->text.substr(0, 40)));
}

// The tensors of a pickle.
class Collector {
 public:
  Collector(const std::string& path, const Storages& storages, size_t parts)
      : path_(path), storages_(storages), visits_(8 * parts + 64) {
    for (const auto& [key, bytes] : storages) memory_ += 4 * bytes.size();
  }

  // All tensors below `value`; `name` is where they hang.
  void collect(const std::string& name, const Pickled& value, int depth) {
    constexpr size_t kLongestName = 4096;
    if (depth > kMaxDepth || name.size() > kLongestName) fail(path_, "holds dictionaries nested too deeply");
    // Parts that hold each other, or hold one part twice and so on, would be walked through without end.
    if (visits_-- == 0) fail(path_, "holds parts that refer to each other in circles");
    if (value.kind == Kind::kCall && !value.items.empty()) {
      if (value.text == "torch._utils._rebuild_tensor_v2" || value.text == "torch._utils._rebuild_tensor") {
        tensors[name] = tensor_of(value);
        return;
      }
      if (value.text == "torch._utils._rebuild_parameter" || value.text == "torch.jit._pickle.restore_type_tag")
        return collect(name, *value.items[0], depth + 1);
    }
    for (const auto& [key, item] : value.entries) {
      const std::string part = key->kind == Kind::kInt ? std::to_string(key->number) : key->text;
      collect(name.empty() ? part : name + "." + part, *item, depth + 1);
    }
  }

  Weights tensors;

 private:
  // _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)
  Tensor tensor_of(const Pickled& call) {
    const auto before = made_.find(&call);  // the same tensor under two names
    if (before != made_.end()) return before->second;
    if (call.items.size() < 4) fail(path_, "has a damaged tensor");
    const StorageRef ref = storage_of(path_, *call.items[0]);
    std::vector<int64_t> shape, stride;
    for (const auto& n : call.items[2]->items) shape.push_back(n->number);
    for (const auto& n : call.items[3]->items) stride.push_back(n->number);
    const auto found = storages_.find(ref.key);
    if (found == storages_.end()) fail(path_, fmt::format("has no data for storage '{}'", ref.key.substr(0, 40)));
    if (shape.size() != stride.size()) fail(path_, "has a damaged tensor");
    const int64_t count = count_of(path_, shape), offset = call.items[1]->number;
    const auto width = static_cast<int64_t>(c10::elementSize(ref.type)),
               there = static_cast<int64_t>(found->second.size()) / width;
    const auto beyond = [&] { fail(path_, "has a tensor that reaches beyond its data"); };
    if (count == 0) return at::empty(shape, ref.type);
    if (offset < 0 || offset >= there || count > there) beyond();  // a stride of zero would make much of little
    int64_t last = offset;
    for (size_t i = 0; i < shape.size(); ++i) {
      const auto reach = product(shape[i] - 1, stride[i]);
      const auto next = reach ? sum(last, *reach) : std::nullopt;
      if (stride[i] < 0 || !next || *next >= there) beyond();
      last = *next;
    }
    const uint64_t bytes = static_cast<uint64_t>(count) * static_cast<uint64_t>(width);
    if (bytes > memory_) fail(path_, "has tensors that share their data too often");
    memory_ -= bytes;
    void* data = const_cast<char*>(found->second.data());
    const Tensor out =
        at::from_blob(data, {there}, ref.type).as_strided(shape, stride, offset).clone(at::MemoryFormat::Contiguous);
    made_[&call] = out;
    return out;
  }

  const std::string& path_;
  const Storages& storages_;
  std::map<const Pickled*, Tensor> made_;
  uint64_t visits_, memory_ = 1 << 20;
};

// Tensors of an object, and the text beside them where it is a tuple (text, dictionary).
Weights tensors_of(const std::string& path, const Pickled& object, const Storages& storages, size_t parts,
                   std::string* text) {
  Collector collector(path, storages, parts);
  const bool pair = object.kind == Kind::kTuple && object.items.size() == 2;
  if (text != nullptr && (!pair || object.items[0]->kind != Kind::kString))
    fail(path, "has no text beside its tensors");
  if (text != nullptr) *text = object.items[0]->text;
  collector.collect("", text != nullptr ? *object.items[1] : object, 0);
  return std::move(collector.tensors);
}

Weights read_zip(const std::string& path, uint64_t file_size, std::string* text) {
  int code = 0;
  const ZipArchive archive(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (!archive) fail(path, "is a damaged zip archive");
  std::string pickle;
  Storages storages;
  bool module = false;
  ZipBudget budget(file_size);
  for (zip_int64_t e = 0; e < zip_get_num_entries(archive.get(), 0); ++e) {
    zip_stat_t info;
    if (zip_stat_index(archive.get(), static_cast<zip_uint64_t>(e), 0, &info) != 0 || info.name == nullptr)
      fail(path, "is a damaged zip archive");
    const std::string entry = info.name;
    const auto slash = entry.find('/');
    const std::string inside = slash == std::string::npos ? entry : entry.substr(slash + 1);
    module |= inside.starts_with("code/");
    const bool data = inside.starts_with("data/");
    if (inside != "data.pkl" && !data) continue;
    if (!budget.holds(info)) fail(path, fmt::format("'{}' claims to be larger than the file can hold", entry));
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
  PickleArena arena;
  const Pickled& object = *read_pickle(path, rest, arena);
  return tensors_of(path, object, storages, arena.size(), text);
}

// Before 2020: pickles of a magic number, the protocol, facts about the system, the object and the list of storage
// keys; then for each storage a 64-bit count and its bytes.
Weights read_legacy(const std::string& path, std::string_view bytes) {
  std::string_view rest = bytes;
  PickleArena unread, arena;
  for (int i = 0; i < 3; ++i) read_pickle(path, rest, unread);
  const Pickled& object = *read_pickle(path, rest, arena);
  // Every storage that a part names.
  std::map<std::string, at::ScalarType> types;
  for (const auto& part : arena) {
    if (part.kind != Kind::kPersistent) continue;
    const StorageRef ref = storage_of(path, part);
    types[ref.key] = ref.type;
  }
  const Pickled& keys = *read_pickle(path, rest, unread);
  Storages storages;
  for (const auto& key : keys.items) {
    const auto type = types.find(key->text);
    if (type == types.end() || rest.size() < 8) fail(path, "is not a sound file of weights");
    uint64_t count = 0;
    std::memcpy(&count, rest.data(), 8);
    const uint64_t width = c10::elementSize(type->second);
    if (count > (rest.size() - 8) / width) fail(path, "ends before its data do");
    storages[key->text] = std::string(rest.substr(8, count * width));
    rest.remove_prefix(8 + count * width);
  }
  return tensors_of(path, object, storages, arena.size(), nullptr);
}

}  // namespace

Weights read_weights(const std::string& path, std::string* text) {
  const std::string bytes = read_file(path);
  if (bytes.size() < 16) fail(path, "is too short to hold weights");
  Weights out;
  if (bytes.starts_with("PK")) {
    out = read_zip(path, bytes.size(), text);
  } else if (text != nullptr) {
    fail(path, "has no text beside its tensors");
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

int64_t elements_in(const Weights& weights) {
  int64_t count = 0;
  for (const auto& [name, tensor] : weights) count += tensor.numel();
  return count;
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
