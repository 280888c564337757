#include "hastings/gan/network/preset.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "hastings/core/error.h"
#include "hastings/core/registry.h"

namespace hastings {
namespace {

using nlohmann::json;

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
  json g = stack(image[0] * image[1] * image[2], {{"type", "relu"}});
  g.push_back({{"type", "tanh"}});
  return {{"image", image},
          {"generator", {{"latent", {{"dim", latent}, {"law", "normal"}}}, {"layers", g}, {"init", "fan-in"}}},
          {"discriminator", {{"layers", stack(1, {{"type", "leaky_relu"}, {"slope", 0.2}})}, {"init", "fan-in"}}}};
}

std::string dcgan_pair(const std::vector<int64_t>& image, int64_t width, int64_t latent) {
  return dcgan(image, width, latent, /*norm=*/true).dump(2);
}

std::string wgan_gp_pair(const std::vector<int64_t>& image, int64_t width, int64_t latent) {
  return dcgan(image, width, latent, /*norm=*/false).dump(2);
}

std::string mlp_pair(const std::vector<int64_t>& image, int64_t width, int64_t latent) {
  return mlp(image, width, latent).dump(2);
}

}  // namespace

const std::vector<NetworkPreset>& network_presets() {
  static const std::vector<NetworkPreset> all = {
      {"dcgan", "convolutions for squares of 8, 16, 32, 64 ... pixels", dcgan_pair},
      {"wgan-gp", "the same, no batch norm in the critic", wgan_gp_pair},
      {"mlp", "dense layers", mlp_pair}};
  return all;
}

std::string preset_pair(const std::string& name, const std::vector<int64_t>& image, int64_t width, int64_t latent) {
  if (width < 1 || width > 4096) throw ConfigError(fmt::format("width {}: must be 1 to 4096", width));
  if (latent < 1 || latent > 65536) throw ConfigError(fmt::format("latent {}: must be 1 to 65536", latent));
  auto names = names_of(network_presets());
  for (const auto& preset : network_presets()) {
    if (name == preset.name) return preset.make(image, width, latent);
  }
  names.emplace_back("a JSON file");
  throw ConfigError(fmt::format("networks '{}': must be {}", name, alternatives(names)));
}

}  // namespace hastings
