#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <unordered_map>

#include "../core/arithmetic.h"
#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/core/random.h"
#include "hastings/data/arrays.h"
#include "hastings/data/images.h"

namespace hastings {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw DataError(fmt::format("{}: {}", path, what));
}

struct Crop {
  int64_t width = 0, height = 0, x = -1, y = -1;  // -1: centred
};

Crop parse_crop(const std::string& text) {
  Crop c;
  char end = 0;
  const int fields = std::sscanf(text.c_str(), "%ldx%ld+%ld+%ld%c", &c.width, &c.height, &c.x, &c.y, &end);
  if ((fields != 2 && fields != 4) || c.width < 1 || c.height < 1)
    throw ConfigError(fmt::format("crop '{}': must be WIDTHxHEIGHT or WIDTHxHEIGHT+X+Y", text));
  return c;
}

// uint8 [n, c, h, w] cropped, resized, with the wanted channels.
Tensor prepare(const std::string& name, Tensor images, const ImageOptions& o) {
  if (!o.crop.empty()) {
    const Crop c = parse_crop(o.crop);
    const int64_t height = images.size(2), width = images.size(3);
    const int64_t y = c.y >= 0 ? c.y : (height - c.height) / 2, x = c.x >= 0 ? c.x : (width - c.width) / 2;
    if (y < 0 || x < 0 || y + c.height > height || x + c.width > width)
      fail(name, fmt::format("the crop {} reaches beyond an image of {}x{}", o.crop, width, height));
    images = images.narrow(2, y, c.height).narrow(3, x, c.width);
  }
  if (o.size > 0 && (images.size(2) != o.size || images.size(3) != o.size)) {
    images =
        at::_upsample_bilinear2d_aa(images.to(at::kFloat), {o.size, o.size}, false).round().clamp(0, 255).to(at::kByte);
  }
  if (o.channels == 1 && images.size(1) == 3) {  // luma, ITU-R 601
    const Tensor weight = at::tensor({0.299f, 0.587f, 0.114f}).view({1, 3, 1, 1});
    images = (images.to(at::kFloat) * weight).sum(1, true).round().to(at::kByte);
  } else if (o.channels == 3 && images.size(1) == 1) {
    images = images.expand({images.size(0), 3, images.size(2), images.size(3)});
  }
  return images.contiguous();
}

int64_t big_endian(const std::string& bytes, size_t at) {
  int64_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

// The idx format: 0, 0, type, number of sizes; sizes; data.
Tensor read_idx(const std::string& path) {
  const std::string bytes = read_file(path);
  if (bytes.starts_with("\x1f\x8b")) fail(path, "is compressed; unpack it first (gunzip)");
  const auto sizes = bytes.size() < 4 ? size_t{0} : static_cast<size_t>(static_cast<unsigned char>(bytes[3]));
  if (bytes.size() < 4 || bytes[0] != 0 || bytes[1] != 0 || bytes[2] != 8 || sizes < 1 || sizes > 4 ||
      bytes.size() < 4 + 4 * sizes)
    fail(path, "is not an idx file of bytes");
  std::vector<int64_t> shape;
  for (size_t i = 0; i < sizes; ++i) shape.push_back(big_endian(bytes, 4 + 4 * i));
  const int64_t count = elements_of(shape).value_or(-1);
  if (static_cast<int64_t>(bytes.size() - 4 - 4 * sizes) != count)
    fail(path, "does not have the length its header says");
  Tensor out = at::empty(shape, at::kByte);
  if (count > 0) std::memcpy(out.data_ptr(), bytes.data() + 4 + 4 * sizes, static_cast<size_t>(count));
  return out;
}

// "train-images-idx3-ubyte" or "train-images.idx3-ubyte"
std::string idx_file(const std::string& folder, const std::string& stem, int sizes) {
  for (const char separator : {'-', '.'}) {
    const std::string path = fmt::format("{}/{}{}idx{}-ubyte", folder, stem, separator, sizes);
    if (fs::exists(path)) return path;
  }
  fail(fmt::format("{}/{}-idx{}-ubyte", folder, stem, sizes), "is not there; `hastings data fetch mnist` gets it");
}

ImageSet read_mnist(const std::string& folder) {
  ImageSet out;
  std::vector<Tensor> pixels, labels;
  for (const char* part : {"train", "t10k"}) {
    const Tensor p = read_idx(idx_file(folder, fmt::format("{}-images", part), 3));
    const Tensor l = read_idx(idx_file(folder, fmt::format("{}-labels", part), 1));
    if (p.dim() != 3 || l.dim() != 1 || p.size(0) != l.size(0))
      fail(folder, "images and labels do not belong together");
    pixels.push_back(p.unsqueeze(1));
    labels.push_back(l.to(at::kLong));
  }
  out.train_size = pixels[0].size(0);
  out.pixels = at::cat(pixels);
  out.labels = at::cat(labels);
  return out;
}

ImageSet read_cifar10(const std::string& folder) {
  constexpr size_t kRow = 1 + 3 * 32 * 32;
  ImageSet out;
  std::vector<Tensor> rows;
  for (const char* part :
       {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"}) {
    const std::string path = fmt::format("{}/{}.bin", folder, part);
    if (!fs::exists(path)) fail(path, "is not there; `hastings data fetch cifar10` gets it");
    const std::string bytes = read_file(path);
    if (bytes.empty() || bytes.size() % kRow != 0) fail(path, "is not a file of CIFAR-10's binary version");
    Tensor part_rows = at::empty({static_cast<int64_t>(bytes.size() / kRow), static_cast<int64_t>(kRow)}, at::kByte);
    std::memcpy(part_rows.data_ptr(), bytes.data(), bytes.size());
    if (std::string(part) != "test_batch") out.train_size += part_rows.size(0);
    rows.push_back(part_rows);
  }
  const Tensor all = at::cat(rows);
  out.labels = all.select(1, 0).to(at::kLong);
  out.pixels = all.narrow(1, 1, static_cast<int64_t>(kRow) - 1).reshape({-1, 3, 32, 32});
  return out;
}

ImageSet read_folder(const std::string& folder, const ImageOptions& o) {
  if (!fs::is_directory(folder)) fail(folder, "is not a folder");
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    std::string extension = entry.path().extension().string();
    std::transform(extension.begin(), extension.end(), extension.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    if (entry.is_regular_file() && (extension == ".png" || extension == ".jpg" || extension == ".jpeg"))
      paths.push_back(entry.path().string());
  }
  if (paths.empty()) fail(folder, "holds no PNG or JPEG files");
  std::sort(paths.begin(), paths.end());
  ImageSet out;
  for (size_t i = 0; i < paths.size(); ++i) {
    const Tensor image = prepare(paths[i], read_image(paths[i]).unsqueeze(0), o)[0];
    if (i == 0)
      out.pixels =
          at::empty({static_cast<int64_t>(paths.size()), image.size(0), image.size(1), image.size(2)}, at::kByte);
    if (image.sizes() != out.pixels[0].sizes())
      fail(paths[i], fmt::format("is {}x{}, others {}x{}; crop or resize them", image.size(2), image.size(1),
                                 out.pixels.size(3), out.pixels.size(2)));
    out.pixels[static_cast<int64_t>(i)].copy_(image);
  }
  return out;
}

// Four axes of bytes. The channel axis is the one of size 1 or 3; where both could be, NHWC.
ImageSet read_image_array(const std::string& spec) {
  const auto npz = spec.find(".npz");
  ImageSet out;
  Tensor array;
  if (npz == std::string::npos) {
    array = read_npy_as_stored(spec);
  } else {
    const auto arrays = read_npz_as_stored(spec.substr(0, npz + 4));
    const std::string wanted = spec.size() > npz + 5 ? spec.substr(npz + 5) : "";
    for (const auto& [name, value] : arrays) {
      const bool images = value.dim() == 4 && value.scalar_type() == at::kByte;
      if (wanted.empty() ? images && !array.defined() : name == wanted) array = value;
      if (value.dim() == 1 && (name == "y" || name == "labels")) out.labels = value.to(at::kLong);
    }
    if (!array.defined())
      fail(spec,
           wanted.empty() ? "holds no array of uint8 images (4 axes)" : fmt::format("holds no array '{}'", wanted));
  }
  if (array.dim() != 4 || array.scalar_type() != at::kByte) fail(spec, "is not an array of uint8 images (4 axes)");
  auto channels = [](int64_t n) { return n == 1 || n == 3; };
  if (channels(array.size(3))) {
    array = array.permute({0, 3, 1, 2});
  } else if (!channels(array.size(1))) {
    fail(spec, "has neither 1 nor 3 channels");
  }
  if (out.labels.defined() && out.labels.size(0) != array.size(0)) out.labels = Tensor();
  out.pixels = array.contiguous();
  return out;
}

std::vector<int64_t> to_vector(const Tensor& t) {
  const Tensor c = t.contiguous();
  return {c.data_ptr<int64_t>(), c.data_ptr<int64_t>() + c.numel()};
}

}  // namespace

void ImageOptions::validate() const {
  if (!crop.empty()) parse_crop(crop);
  if (size < 0 || size > 4096) throw ConfigError(fmt::format("size {}: must be 0 to 4096", size));
  if (channels != 0 && channels != 1 && channels != 3)
    throw ConfigError(fmt::format("channels {}: must be 1 or 3", channels));
}

ImageSet read_images(const std::string& spec, const ImageOptions& options) {
  options.validate();
  const auto colon = spec.find(':');
  const std::string kind = spec.substr(0, colon), rest = colon == std::string::npos ? "" : spec.substr(colon + 1);
  ImageSet out;
  if (spec.find(".npy") != std::string::npos || spec.find(".npz") != std::string::npos) {
    out = read_image_array(spec);
  } else if (kind == "mnist" && !rest.empty()) {
    out = read_mnist(rest);
  } else if (kind == "cifar10" && !rest.empty()) {
    out = read_cifar10(rest);
  } else if ((kind == "folder" && !rest.empty()) || fs::is_directory(spec)) {
    out = read_folder(rest.empty() ? spec : rest, options);
  } else {
    throw ConfigError(
        fmt::format("data '{}': must be mnist:FOLDER, cifar10:FOLDER, folder:FOLDER, FILE.npy or FILE.npz", spec));
  }
  if (out.pixels.size(0) == 0) fail(spec, "holds no images");
  if (kind != "folder" && !fs::is_directory(spec)) out.pixels = prepare(spec, out.pixels, options);
  out.name = spec;
  return out;
}

Splits make_splits(const ImageSet& images, const SplitOptions& options, uint64_t seed) {
  const int64_t n = images.pixels.size(0), test = images.train_size > 0 ? n - images.train_size : 0;
  const int64_t share = n / (options.train ? 3 : 2);  // of few images
  const int64_t calibrate = std::min(options.calibrate, share);
  const int64_t reference = options.train ? std::min(options.reference, share) : n - calibrate;
  const std::string parts = options.train ? "train, calibrate and score" : "calibrate and score";
  if (calibrate < 100 || reference < 100)
    fail(images.name,
         n >= (options.train ? 300 : 200)
             ? fmt::format("of its {} images {} are kept to calibrate and {} to score: at least 100 each are "
                           "needed (--calibrate-images, --reference-images)",
                           n, calibrate, reference)
             : fmt::format("{} images are too few to {} apart ({} are needed)", n, parts, options.train ? 300 : 200));
  Stream stream(seed, Phase::kSplit, 0, Purpose::kBatch);
  const std::vector<int64_t> first = to_vector(stream.permutation(n - test)),
                             last = to_vector(stream.permutation(std::max<int64_t>(test, 1)));
  Splits out;
  // Test images first, then, where they do not reach, others.
  std::vector<int64_t> order;
  for (int64_t i = 0; i < test; ++i) order.push_back(images.train_size + last[static_cast<size_t>(i)]);
  order.insert(order.end(), first.begin(), first.end());
  auto at = order.begin();
  out.calibrate.assign(at, at + calibrate);
  at += calibrate;
  // The rest of the test set is kept for scores only if it suffices; else it is trained on as well.
  out.reference.assign(at, at + reference);
  at += reference;
  out.train.assign(at, order.end());
  for (auto* part : {&out.train, &out.calibrate, &out.reference}) std::sort(part->begin(), part->end());
  return out;
}

uint64_t fingerprint(const ImageSet& images) {
  const Tensor flat = images.pixels.contiguous();
  const auto* bytes = flat.data_ptr<uint8_t>();
  const auto n = static_cast<size_t>(flat.numel());
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a, eight bytes at a time
  for (size_t i = 0; i < n; i += 8) {
    uint64_t word = n - i;  // the length takes part
    std::memcpy(&word, bytes + i, std::min<size_t>(8, n - i));
    hash = (hash ^ word) * 0x100000001b3ULL;
    hash ^= hash >> 32;
  }
  return hash;
}

int64_t check_splits(const ImageSet& images, const Splits& splits) {
  const int64_t n = images.pixels.size(0);
  std::vector<char> owner(static_cast<size_t>(n), 0);
  char part_number = 0;
  for (const auto* part : {&splits.train, &splits.calibrate, &splits.reference}) {
    ++part_number;
    for (const int64_t i : *part) {
      if (i < 0 || i >= n) fail(images.name, fmt::format("a split names image {} of {}: these are other data", i, n));
      auto& mine = owner[static_cast<size_t>(i)];
      if (mine != 0) fail(images.name, fmt::format("image {} is in two splits", i));
      mine = part_number;
    }
  }
  // Copies under another index leak as well.
  const Tensor flat = images.pixels.reshape({n, -1}).contiguous();
  const auto width = static_cast<size_t>(flat.size(1));
  const auto* data = reinterpret_cast<const char*>(flat.data_ptr<uint8_t>());
  std::unordered_map<std::string_view, char> seen;
  int64_t copies = 0;
  for (int64_t i = 0; i < n; ++i) {
    const char mine = owner[static_cast<size_t>(i)];
    if (mine == 0) continue;
    const auto [other, fresh] = seen.emplace(std::string_view(data + static_cast<size_t>(i) * width, width), mine);
    if (!fresh && other->second != mine) ++copies;
  }
  return copies;
}

}  // namespace hastings
