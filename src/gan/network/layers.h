// The layers of a network, one class for those with weights and one function for those without.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "hastings/core/random.h"
#include "hastings/core/tensor.h"

namespace hastings {

using Shape = std::vector<int64_t>;  // without the batch

struct ForwardContext {
  bool training = false;
  Stream* noise = nullptr;  // dropout's
};

class NetworkLayer {
 public:
  virtual ~NetworkLayer() = default;
  virtual Tensor forward(const Tensor& x, const ForwardContext& context) const = 0;
  virtual bool has_weights() const { return false; }
  virtual bool linear() const { return false; }  // its output is linear in its input, and it has weights
  virtual void collect(std::map<std::string, Tensor>& tensors) const { (void)tensors; }
  virtual void collect_parameters(std::vector<Tensor>& parameters) const { (void)parameters; }
};

using LayerList = std::vector<std::unique_ptr<NetworkLayer>>;

// How fresh weights are drawn; without a stream they are left for a file to fill.
struct Init {
  Stream* stream = nullptr;
  bool fan_in = false;
  int64_t* left = nullptr;  // weights that the network may still have
};

constexpr int64_t kMaxValues = int64_t{1} << 28;  // that a layer may give for one input

// Builds layers from their JSON, following the shape of what goes through them; `shape` ends as the output's.
LayerList build_layers(const nlohmann::json& list, Shape& shape, const Init& init, const std::string& path);

Tensor run_layers(const LayerList& layers, Tensor x, const ForwardContext& context);

}  // namespace hastings
