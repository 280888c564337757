// The types of layers, by families; each family is one file.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "layer_fields.h"

namespace hastings {

struct LayerType {
  // A vector into a layer that wants an image is an image of one pixel; an image where a vector is wanted is flattened.
  enum class Wants { kAny, kVector, kImage };

  const char *name, *fields;  // those it knows beside type, name and comment
  // `shape` comes in as the input's and ends as the output's; `name` is the prefix of its tensors.
  std::unique_ptr<NetworkLayer> (*build)(Fields& f, Shape& shape, const Init& init, const std::string& name);
  Wants wants = Wants::kAny;
};

std::vector<LayerType> weighted_layers();    // linear, conv, conv_transpose
std::vector<LayerType> norm_layers();        // batch_norm, instance_norm, layer_norm
std::vector<LayerType> activation_layers();  // relu, tanh ...
std::vector<LayerType> pool_layers();        // max_pool, avg_pool, global_mean
std::vector<LayerType> parallel_layers();    // residual, branches
std::vector<LayerType> shape_layers();       // flatten, reshape, pad, resize ...
std::vector<LayerType> value_layers();       // dropout, normalise

// A layer without weights.
class Stateless final : public NetworkLayer {
 public:
  using Function = std::function<Tensor(const Tensor&, const ForwardContext&)>;
  explicit Stateless(Function f) : f_(std::move(f)) {}
  Tensor forward(const Tensor& x, const ForwardContext& context) const override { return f_(x, context); }

 private:
  Function f_;
};

inline std::unique_ptr<NetworkLayer> stateless(Stateless::Function f) {
  return std::make_unique<Stateless>(std::move(f));
}

}  // namespace hastings
