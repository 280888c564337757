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

}  // namespace hastings
