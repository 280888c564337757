#include "hastings/gan/network/pair.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/core/json.h"

namespace hastings {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

int64_t numel(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t s : shape) n *= s;
  return n;
}

// [channels, height, width]
std::vector<int64_t> image_shape(const std::string& name, const json& value) {
  std::vector<int64_t> shape;
  bool right = value.is_array() && value.size() == 3;
  for (size_t i = 0; right && i < 3; ++i) {
    right = value[i].is_number_unsigned() && value[i] >= 1 && value[i] <= 1 << 15;
    if (right) shape.push_back(value[i].get<int64_t>());
  }
  if (!right)
    throw ConfigError(
        fmt::format("{}: 'image' is {}: must be [channels, height, width]", name, value.dump().substr(0, 60)));
  return shape;
}

// One of the two networks. The discriminator's closing sigmoid is left out: its logit is what is wanted.
std::unique_ptr<Network> open(const std::string& name, json part, const std::string& folder, Stream* init,
                              bool discriminator, std::vector<int64_t> input, std::vector<int64_t> output,
                              bool& probability) {
  if (part.contains("module")) {
    probability = discriminator && part.value("output", "logit") == "probability";
    return load_module((fs::path(folder) / part["module"].get<std::string>()).string(), std::move(input),
                       std::move(output));
  }
  if (!part.contains("layers")) throw ConfigError(fmt::format("{}: needs 'layers' or 'module'", name));
  auto& layers = part["layers"];
  if (discriminator && layers.is_array() && !layers.empty() && layers.back().value("type", "") == "sigmoid") {
    layers.erase(layers.size() - 1);
  } else {
    probability = discriminator && part.value("output", "logit") == "probability";
  }
  std::string path;
  Weights weights;
  if (init == nullptr) {
    if (!part.contains("weights")) throw ConfigError(fmt::format("{}: needs 'weights', the file they are in", name));
    path = (fs::path(folder) / part["weights"].get<std::string>()).string();
    weights = read_weights(path);
  }
  auto network = [&] {
    try {
      json description = {{"input", input}, {"layers", layers}};
      if (part.contains("init")) description["init"] = part["init"];
      return build_network(description, init, init == nullptr ? most_weights(weights) : kMaxWeights);
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("{}: {}", name, error.what()));
    }
  }();
  if (numel(network->output_shape()) != numel(output))
    throw ConfigError(fmt::format("{}: its last layer gives [{}], wanted is [{}]", name,
                                  fmt::join(network->output_shape(), ", "), fmt::join(output, ", ")));
  if (init == nullptr) network->load(weights, path);
  return network;
}

Pair build(const std::string& name, const std::string& text, const std::string& folder, Stream* init) {
  const json all = parse_json(name, text, /*comments=*/true);
  if (!all.is_object()) throw DataError(fmt::format("{}: is not a JSON object", name));
  Pair pair;
  try {
    pair.description = all.dump(2);
    pair.image = image_shape(name, all.at("image"));
    const json& g = all.at("generator");
    const json latent = g.value("latent", json::object());
    pair.latent.dim = latent.value("dim", int64_t{100});
    const std::string law = latent.value("law", "normal");
    if (law != "normal" && law != "uniform")
      throw ConfigError(fmt::format("{}: latent law '{}': must be normal or uniform", name, law));
    pair.latent.uniform = law == "uniform";
    if (pair.latent.dim < 1 || pair.latent.dim > 1 << 16)
      throw ConfigError(fmt::format("{}: the latent's 'dim' is {}: must be from 1 to 65536", name, pair.latent.dim));
    bool ignored = false;
    pair.generator = open(name + ": generator", g, folder, init, false, {pair.latent.dim}, pair.image, ignored);
    pair.discriminator =
        open(name + ": discriminator", all.at("discriminator"), folder, init, true, pair.image, {1}, pair.probability);
  } catch (const json::exception& error) {
    throw ConfigError(fmt::format("{}: {}", name, reason_of(error)));
  }
  return pair;
}

json conv(const char* type, int64_t out, int64_t kernel, int64_t stride, int64_t padding, bool bias) {
  return {{"type", type}, {"out", out}, {"kernel", kernel}, {"stride", stride}, {"padding", padding}, {"bias", bias}};
}

json dcgan(const std::vector<int64_t>& image, int64_t width, int64_t latent, bool norm) {
  int64_t stages = 0;
  while ((4 << stages) < image[1]) ++stages;
  if (image[1] != image[2] || (4 << stages) != image[1] || stages < 1)
    throw ConfigError(fmt::format("dcgan: images of {}x{}; wanted are squares of 8, 16, 32, 64 ... pixels (--size)",
                                  image[2], image[1]));
  json g = json::array(), d = json::array();
  g.push_back(conv("conv_transpose", width << (stages - 1), 4, 1, 0, false));
  for (int64_t s = stages - 1; s >= 0; --s) {
    g.push_back({{"type", "batch_norm"}});
    g.push_back({{"type", "relu"}});
    g.push_back(conv("conv_transpose", s > 0 ? width << (s - 1) : image[0], 4, 2, 1, false));
  }
  g.push_back({{"type", "tanh"}});
  for (int64_t s = 0; s < stages; ++s) {
    d.push_back(conv("conv", width << s, 4, 2, 1, !norm));
    if (s > 0 && norm) d.push_back({{"type", "batch_norm"}});
    d.push_back({{"type", "leaky_relu"}, {"slope", 0.2}});
  }
  d.push_back(conv("conv", 1, 4, 1, 0, !norm));
  return {{"image", image},
          {"generator", {{"latent", {{"dim", latent}, {"law", "normal"}}}, {"layers", g}}},
          {"discriminator", {{"layers", d}}}};
}

json mlp(const std::vector<int64_t>& image, int64_t width, int64_t latent) {
  auto stack = [&](int64_t out, const json& activation) {
    json list = json::array();
    for (int i = 0; i < 2; ++i) {
      list.push_back({{"type", "linear"}, {"out", width}});
      list.push_back(activation);
    }
    list.push_back({{"type", "linear"}, {"out", out}});
    return list;
  };
  json g = stack(numel(image), {{"type", "relu"}});
  g.push_back({{"type", "tanh"}});
  return {{"image", image},
          {"generator", {{"latent", {{"dim", latent}, {"law", "normal"}}}, {"layers", g}, {"init", "fan-in"}}},
          {"discriminator", {{"layers", stack(1, {{"type", "leaky_relu"}, {"slope", 0.2}})}, {"init", "fan-in"}}}};
}

}  // namespace

Tensor Latent::draw(Stream& stream, int64_t n) const {
  const Tensor z = uniform ? stream.uniform({n, dim}) * 2 - 1 : stream.normal({n, dim});
  return z.to(at::kFloat);
}

Tensor Pair::generate(const Tensor& z) const {
  return generator->forward(z).reshape({z.size(0), image[0], image[1], image[2]});
}

Tensor Pair::logits(const Tensor& images, Tensor* features) const {
  const Tensor out = discriminator->forward(images, features).reshape({images.size(0)});
  return probability ? out.logit(1e-7) : out;  // a sigmoid in single precision reaches 1
}

Tensor to_network_range(const Tensor& bytes) { return bytes.to(at::kFloat).div_(127.5).sub_(1); }

Tensor to_bytes(const Tensor& images) {
  return images.detach().add(1).mul_(127.5).round_().clamp_(0, 255).to(at::kByte);
}

Tensor rounded_to_bytes(const Tensor& images) {
  Tensor out = images.detach().contiguous().clone();
  float* x = out.data_ptr<float>();
  constexpr float kRounds = 12582912.0F;  // 1.5 * 2^23: adding it leaves no fraction
  for (int64_t i = 0, n = out.numel(); i < n; ++i) {
    const float level = std::min(std::max((x[i] + 1.0F) * 127.5F, 0.0F), 255.0F);
    x[i] = ((level + kRounds) - kRounds) / 127.5F - 1.0F;
  }
  return out;
}

Pair load_pair(const std::string& path, const std::string& weights_folder) {
  const std::string folder = weights_folder.empty() ? fs::path(path).parent_path().string() : weights_folder;
  return build(path, read_file(path), folder, nullptr);
}

Pair fresh_pair(const std::string& description, uint64_t seed) {
  Stream stream(seed, Phase::kGanBuild, 0, Purpose::kWeights);
  return build("pair", description, "", &stream);
}

std::string preset_pair(const std::string& name, const std::vector<int64_t>& image, int64_t width, int64_t latent) {
  if (width < 1 || width > 4096) throw ConfigError(fmt::format("width {}: must be 1 to 4096", width));
  if (latent < 1 || latent > 65536) throw ConfigError(fmt::format("latent {}: must be 1 to 65536", latent));
  if (name == "dcgan") return dcgan(image, width, latent, true).dump(2);
  if (name == "wgan-gp") return dcgan(image, width, latent, false).dump(2);
  if (name == "mlp") return mlp(image, width, latent).dump(2);
  throw ConfigError(fmt::format("networks '{}': must be dcgan, wgan-gp, mlp or a JSON file", name));
}

}  // namespace hastings
