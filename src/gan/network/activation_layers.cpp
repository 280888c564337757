// Functions of one number at a time.
#include <ATen/ATen.h>

#include "layer_types.h"

namespace hastings {
namespace {

using Made = std::unique_ptr<NetworkLayer>;

template <Tensor (*function)(const Tensor&)>
Made pointwise(Fields&, Shape&, const Init&, const std::string&) {
  return stateless([](const Tensor& x, const ForwardContext&) { return function(x); });
}

Tensor elu(const Tensor& x) { return at::elu(x); }
Tensor gelu(const Tensor& x) { return at::gelu(x); }
Tensor softplus(const Tensor& x) { return at::softplus(x); }

Made leaky_relu(Fields& f, Shape&, const Init&, const std::string&) {
  const double slope = f.get<double>("slope", 0.2);
  return stateless([slope](const Tensor& x, const ForwardContext&) { return at::leaky_relu(x, slope); });
}

}  // namespace

std::vector<LayerType> activation_layers() {
  return {{"relu", "", pointwise<at::relu>}, {"leaky_relu", "slope", leaky_relu},
          {"tanh", "", pointwise<at::tanh>}, {"sigmoid", "", pointwise<at::sigmoid>},
          {"silu", "", pointwise<at::silu>}, {"elu", "", pointwise<elu>},
          {"gelu", "", pointwise<gelu>},     {"softplus", "", pointwise<softplus>}};
}

}  // namespace hastings
