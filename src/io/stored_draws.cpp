#include "hastings/io/stored_draws.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <zip.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "../core/arithmetic.h"
#include "hastings/core/error.h"
#include "hastings/data/arrays.h"
#include "hastings/io/stored_summary.h"

namespace hastings {

// The archive stays open; its arrays are stored, not compressed, so that ranges of them can be read.
struct StoredDraws::Archive {
  explicit Archive(const std::string& file) : path(file) {
    int code = 0;
    zip = zip_open(path.c_str(), ZIP_RDONLY, &code);
    if (!zip) throw DataError(fmt::format("{}: is not a readable npz archive", path));
  }
  ~Archive() { zip_discard(zip); }

  struct Array {
    std::vector<int64_t> shape;
    int64_t data = 0;  // offset within the entry
  };
  // Shape and place of an array of doubles; false if there is none of that name.
  bool find(const std::string& name, Array& out) const {
    zip_file_t* file = zip_fopen(zip, (name + ".npy").c_str(), 0);
    if (!file) return false;
    const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> closer(file, zip_fclose);
    const NpyHead head = read_npy_head(path + ":" + name, [&](char* data, size_t size) {
      return zip_fread(file, data, size) == static_cast<zip_int64_t>(size);
    });
    zip_stat_t info;
    const auto bytes = product(elements_of(head.shape).value_or(-1), 8);
    const bool whole = zip_stat(zip, (name + ".npy").c_str(), 0, &info) == 0 && (info.valid & ZIP_STAT_SIZE) != 0 &&
                       info.comp_method == ZIP_CM_STORE && bytes && *bytes >= 0 &&
                       info.size == static_cast<uint64_t>(*bytes + head.size);
    if (!whole || head.shape.size() < 2) throw DataError(fmt::format("{}: '{}' is damaged", path, name));
    if (head.type != "<f8") throw DataError(fmt::format("{}: '{}' is not an array of doubles", path, name));
    out.shape = head.shape;
    out.data = head.size;
    return true;
  }

  std::string path;
  zip_t* zip = nullptr;
};

StoredDraws::StoredDraws(const std::string& folder) {
  const StoredSummary stored = load_summary(folder);
  const std::string path = folder + "/draws.npz";
  if (!std::filesystem::exists(path)) throw DataError(fmt::format("{}: is not there", path));
  archive_ = std::make_unique<Archive>(path);
  Archive::Array draws, warmup;
  if (!archive_->find("draws", draws) || draws.shape.size() != 3 || draws.shape[0] < 1 || draws.shape[1] < 1)
    throw DataError(fmt::format("{}: holds no draws", path));
  chains_ = draws.shape[0];
  draws_ = draws.shape[1];
  if (archive_->find("warmup_draws", warmup)) warmup_ = warmup.shape.at(1);
  for (const auto& p : stored.summary.parameters) names_.push_back(p.name);
  if (width() != draws.shape[2])
    throw DataError(fmt::format("{}: has {} columns, summary.json {}", path, draws.shape[2], width()));
}

StoredDraws::~StoredDraws() = default;

Tensor StoredDraws::read(const std::string& array, int64_t chain, int64_t first, int64_t count) const {
  Archive::Array found;
  if (!archive_->find(array, found)) throw DataError(fmt::format("{}: has no array '{}'", archive_->path, array));
  const int64_t columns = found.shape.size() > 2 ? found.shape[2] : 1, rows = found.shape.at(1);
  auto bad = [&] { throw DataError(fmt::format("{}: '{}' cannot be read", archive_->path, array)); };
  if (chain < 0 || chain >= found.shape[0] || first < 0 || count < 0 || count > rows || first > rows - count) bad();
  zip_file_t* file = zip_fopen(archive_->zip, (array + ".npy").c_str(), 0);
  if (!file) bad();
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> closer(file, zip_fclose);
  if (zip_fseek(file, found.data + (chain * rows + first) * columns * 8, SEEK_SET) != 0) bad();
  Tensor out = at::empty({count, columns}, at::kDouble);
  auto* to = reinterpret_cast<char*>(out.data_ptr<double>());
  for (int64_t left = out.numel() * 8; left > 0;) {
    const zip_int64_t n = zip_fread(file, to, static_cast<zip_uint64_t>(left));
    if (n <= 0) bad();
    to += n;
    left -= n;
  }
  return out;
}

}  // namespace hastings
