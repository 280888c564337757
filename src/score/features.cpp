#include "hastings/score/features.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/core/parallel.h"

namespace hastings {

namespace fs = std::filesystem;

FeatureNetwork::FeatureNetwork(const std::string& path, const std::string& weights) {
  const auto description = nlohmann::json::parse(read_file(path), nullptr, false, true);
  if (!description.is_object()) throw DataError(fmt::format("{}: is not a JSON object", path));
  try {
    network_ = build_network(description);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", path, error.what()));
  }
  name_ = description.value("name", fs::path(path).stem().string());
  if (weights.empty() && !description.contains("weights"))
    throw ConfigError(fmt::format("{}: needs 'weights', the file they are in", path));
  const std::string file =
      weights.empty() ? (fs::path(path).parent_path() / description["weights"].get<std::string>()).string() : weights;
  Weights used;
  const Weights wanted = network_->weights();
  for (const auto& [name, value] : read_weights(file)) {
    if (wanted.contains(name)) used[name] = value;
  }
  network_->load(used, file);
}

Tensor FeatureNetwork::operator()(const Tensor& pixels, int threads) const {
  const auto& input = network_->input_shape();
  if (pixels.sizes().slice(1) != at::IntArrayRef(input))
    throw ConfigError(fmt::format("{}: wants images of {}x{}x{}, these are {}x{}x{}", name_, input[0], input[1],
                                  input[2], pixels.size(1), pixels.size(2), pixels.size(3)));
  constexpr int64_t kBlock = 200;
  const int64_t n = pixels.size(0), blocks = (n + kBlock - 1) / kBlock;
  std::vector<Tensor> parts(static_cast<size_t>(blocks));
  parallel_tasks(blocks, resolve_threads(threads), [&](int64_t b) {
    const at::NoGradGuard no_grad;
    const Tensor x = pixels.narrow(0, b * kBlock, std::min(kBlock, n - b * kBlock)).to(at::kFloat).div_(255);
    parts[static_cast<size_t>(b)] = network_->forward(x).flatten(1);
  });
  return at::cat(parts);
}

}  // namespace hastings
