// The largest or the mean of a window, and the mean of all.
#include <ATen/ATen.h>

#include "layer_types.h"

namespace hastings {
namespace {

using Made = std::unique_ptr<NetworkLayer>;

struct Window {
  Window(Fields& f, Shape& shape) {
    need_image(f, shape);
    kernel = f.positive("kernel");
    stride = f.positive("stride", kernel);
    padding = f.not_negative("padding", 0);
    shape = {shape[0], windows(f, shape[1], kernel, stride, padding), windows(f, shape[2], kernel, stride, padding)};
  }
  int64_t kernel = 0, stride = 0, padding = 0;
};

Made max_pool(Fields& f, Shape& shape, const Init&, const std::string&) {
  const Window w(f, shape);
  return stateless(
      [w](const Tensor& x, const ForwardContext&) { return at::max_pool2d(x, w.kernel, w.stride, w.padding); });
}

Made avg_pool(Fields& f, Shape& shape, const Init&, const std::string&) {
  const Window w(f, shape);
  const bool count_pad = f.get<bool>("count_include_pad", true);
  return stateless([w, count_pad](const Tensor& x, const ForwardContext&) {
    return at::avg_pool2d(x, w.kernel, w.stride, w.padding, false, count_pad);
  });
}

Made global_mean(Fields& f, Shape& shape, const Init&, const std::string&) {
  need_image(f, shape);
  shape = {shape[0]};
  return stateless([](const Tensor& x, const ForwardContext&) { return x.mean({2, 3}); });
}

}  // namespace

std::vector<LayerType> pool_layers() {
  return {{"max_pool", "kernel, stride, padding", max_pool},
          {"avg_pool", "kernel, stride, padding, count_include_pad", avg_pool},
          {"global_mean", "", global_mean}};
}

}  // namespace hastings
