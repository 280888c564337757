#include "layers.h"

#include <ATen/ATen.h>

#include "hastings/gan/network/network.h"
#include "layer_types.h"

namespace hastings {
namespace {

const std::vector<LayerType>& layer_types() {
  static const std::vector<LayerType> all = [] {
    std::vector<LayerType> out;
    for (const auto family :
         {weighted_layers, norm_layers, activation_layers, pool_layers, parallel_layers, shape_layers, value_layers}) {
      const auto types = family();
      out.insert(out.end(), types.begin(), types.end());
    }
    return out;
  }();
  return all;
}

const LayerType& type_of(const Fields& f) {
  for (const auto& type : layer_types()) {
    if (f.type() == type.name) return type;
  }
  f.fail("is not a layer; docs/networks.md lists them");
}

}  // namespace

std::vector<std::pair<std::string, std::string>> known_layers() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& type : layer_types()) out.emplace_back(type.name, type.fields);
  return out;
}

LayerList build_layers(const nlohmann::json& list, Shape& shape, const Init& init, const std::string& path) {
  if (!list.is_array()) throw ConfigError(fmt::format("{}: must be a list of layers", path));
  LayerList out;
  for (size_t i = 0; i < list.size(); ++i) {
    Fields f(list[i], fmt::format("{} layer {}", path, i));
    const bool vector = shape.size() == 1;
    const auto name = f.get<std::string>("name", fmt::format("main.{}", i));
    const LayerType& type = type_of(f);
    auto layer = type.build(f, shape, init, name);
    f.finish();
    if (numel(shape) < 0 || numel(shape) > kMaxValues)
      f.fail(fmt::format("gives [{}], more than {} values", fmt::join(shape, ", "), kMaxValues));
    if (type.wants == LayerType::Wants::kVector && !vector)
      out.push_back(stateless([](const Tensor& x, const ForwardContext&) { return x.flatten(1); }));
    if (type.wants == LayerType::Wants::kImage && vector)
      out.push_back(stateless([](const Tensor& x, const ForwardContext&) { return x.view({x.size(0), -1, 1, 1}); }));
    out.push_back(std::move(layer));
  }
  return out;
}

Tensor run_layers(const LayerList& layers, Tensor x, const ForwardContext& context) {
  for (const auto& layer : layers) x = layer->forward(x, context);
  return x;
}

}  // namespace hastings
