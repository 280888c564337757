#include "hastings/gan/network/features.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/core/json.h"
#include "hastings/core/parallel.h"

namespace hastings {

namespace fs = std::filesystem;

using nlohmann::json;

void FeatureNetwork::build(const json& description, const std::string& file, const Weights& weights,
                           const std::string& weight_file) {
  try {
    network_ = build_network(description, nullptr, most_weights(weights));
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", file, error.what()));
  }
  name_ = description.value("name", fs::path(file).stem().string());
  description_ = description.dump(2);
  network_->load(weights, weight_file, /*leftovers=*/true);
}

namespace {

json parsed(const std::string& text, const std::string& file) {
  json description = parse_json(file, text, /*comments=*/true);
  if (!description.is_object()) throw DataError(fmt::format("{}: is not a JSON object", file));
  for (const char* key : {"name", "weights"}) {
    if (description.contains(key) && !description[key].is_string())
      throw DataError(fmt::format("{}: '{}' must be a text", file, key));
  }
  return description;
}

}  // namespace

FeatureNetwork::FeatureNetwork(const std::string& path, const std::string& weights) {
  const json description = parsed(read_file(path), path);
  if (weights.empty() && !description.contains("weights"))
    throw ConfigError(fmt::format("{}: needs 'weights', the file they are in", path));
  const std::string file =
      weights.empty() ? (fs::path(path).parent_path() / description["weights"].get<std::string>()).string() : weights;
  build(description, path, read_weights(file), file);
}

FeatureNetwork::FeatureNetwork(const std::string& description, const Weights& weights) {
  build(parsed(description, "features"), "features", weights, "features");
}

void FeatureNetwork::save(const std::string& stem) const {
  json description = json::parse(description_);
  description["name"] = name_;
  description["weights"] = fs::path(stem).filename().string() + ".safetensors";
  write_safetensors(stem + ".safetensors", network_->weights());
  write_file(stem + ".json", description.dump(2) + "\n");
}

Tensor FeatureNetwork::forward(const Tensor& images) const {
  const auto& input = network_->input_shape();
  if (images.sizes().slice(1) != at::IntArrayRef(input))
    throw ConfigError(fmt::format("{}: wants images of {}, these are {}", name_, fmt::join(input, "x"),
                                  fmt::join(images.sizes().slice(1), "x")));
  const at::NoGradGuard no_grad;
  return network_->forward(images).flatten(1);
}

Tensor FeatureNetwork::of_images(const Tensor& images) const { return forward((images + 1).mul_(0.5)); }

Tensor FeatureNetwork::operator()(const Tensor& pixels, int threads) const {
  constexpr int64_t kBlock = 200;
  const int64_t n = pixels.size(0), blocks = (n + kBlock - 1) / kBlock;
  std::vector<Tensor> parts(static_cast<size_t>(blocks));
  parallel_tasks(blocks, resolve_threads(threads), [&](int64_t b) {
    parts[static_cast<size_t>(b)] =
        forward(pixels.narrow(0, b * kBlock, std::min(kBlock, n - b * kBlock)).to(at::kFloat).div_(255));
  });
  return at::cat(parts);
}

}  // namespace hastings
