// Layers that change values without looking at their neighbours: noise, and what a classifier wants its input like.
#include <ATen/ATen.h>

#include "layer_types.h"

namespace hastings {
namespace {

std::unique_ptr<NetworkLayer> dropout(Fields& f, Shape&, const Init&, const std::string&) {
  const double p = f.get<double>("p", 0.5);
  if (!(p >= 0 && p < 1)) f.fail(fmt::format("'p' is {}: must be at least 0 and below 1", p));
  return stateless([p](const Tensor& x, const ForwardContext& context) {
    if (!context.training || context.noise == nullptr) return x;
    return x * (context.noise->uniform(x.sizes()) >= p).to(x.scalar_type()).div_(1 - p);
  });
}

// (x - mean) / std, by channels.
std::unique_ptr<NetworkLayer> normalise(Fields& f, Shape& shape, const Init&, const std::string&) {
  const auto mean = f.get<std::vector<double>>("mean", {0.0}), sd = f.get<std::vector<double>>("std", {1.0});
  for (const auto* v : {&mean, &sd}) {
    if (v->size() != 1 && static_cast<int64_t>(v->size()) != shape[0])
      f.fail("'mean' and 'std' want one number, or one a channel");
  }
  Shape view(shape.size() + 1, 1);
  view[1] = -1;
  const Tensor m = at::tensor(mean).to(at::kFloat).view(view), s = at::tensor(sd).to(at::kFloat).view(view);
  return stateless([m, s](const Tensor& x, const ForwardContext&) { return (x - m) / s; });
}

}  // namespace

std::vector<LayerType> value_layers() { return {{"dropout", "p", dropout}, {"normalise", "mean, std", normalise}}; }

}  // namespace hastings
