// y = W x + b with W dense, convolved, or convolved the other way round.
#include <ATen/ATen.h>

#include "conv_transpose.h"
#include "layer_types.h"

namespace hastings {
namespace {

class Weighted : public NetworkLayer {
 public:
  explicit Weighted(std::string name) : name_(std::move(name)) {}
  bool has_weights() const override { return true; }
  bool linear() const override { return true; }
  void collect(std::map<std::string, Tensor>& tensors) const override {
    tensors[name_ + ".weight"] = weight;
    if (bias.defined()) tensors[name_ + ".bias"] = bias;
  }
  void collect_parameters(std::vector<Tensor>& parameters) const override {
    parameters.push_back(weight);
    if (bias.defined()) parameters.push_back(bias);
  }

  Tensor weight, bias;  // bias undefined: without

 private:
  std::string name_;
};

class Linear final : public Weighted {
 public:
  using Weighted::Weighted;
  Tensor forward(const Tensor& x, const ForwardContext&) const override { return at::linear(x, weight, bias); }
};

class Convolution final : public Weighted {
 public:
  using Weighted::Weighted;
  int64_t stride = 1, padding = 0;

  Tensor forward(const Tensor& x, const ForwardContext&) const override {
    return at::conv2d(x, weight, bias, stride, padding);
  }
};

class TransposedConvolution final : public Weighted {
 public:
  using Weighted::Weighted;
  int64_t stride = 1, padding = 0, output_padding = 0;

  int64_t grown(int64_t n, int64_t kernel) const { return (n - 1) * stride - 2 * padding + kernel + output_padding; }

  Tensor forward(const Tensor& x, const ForwardContext&) const override {
    // The backward of the fast way is not itself differentiable: no matter for a generator.
    if (output_padding > 0) return at::conv_transpose2d(x, weight, bias, stride, padding, output_padding);
    const int64_t kernel = weight.size(2);
    const Tensor y =
        ConvTranspose::apply(x, weight, stride, padding, grown(x.size(2), kernel), grown(x.size(3), kernel));
    return bias.defined() ? y + bias.view({1, -1, 1, 1}) : y;
  }
};

std::unique_ptr<NetworkLayer> linear(Fields& f, Shape& shape, const Init& init, const std::string& name) {
  auto layer = std::make_unique<Linear>(name);
  const int64_t out = f.positive("out");
  const bool bias = f.get<bool>("bias", true);
  if (shape.size() != 1) shape = {numel(shape)};  // as if flattened; forward sees the flat tensor
  layer->weight = fresh(init, {out, shape[0]}, shape[0], 0, 0.02);
  if (bias) layer->bias = fresh_bias(init, out, shape[0]);
  shape = {out};
  return layer;
}

// What both convolutions ask for; `shape` becomes an image's.
struct Kernel {
  Kernel(Fields& f, Shape& shape) : out(f.positive("out")), bias(f.get<bool>("bias", true)) {
    if (shape.size() == 1) shape = {shape[0], 1, 1};
    need_image(f, shape);
    in = shape[0];
    size = f.positive("kernel");
    stride = f.positive("stride", 1);
    padding = f.not_negative("padding", 0);
  }
  int64_t fan_in() const { return in * size * size; }

  int64_t out;
  bool bias;
  int64_t in = 0, size = 0, stride = 0, padding = 0;
};

std::unique_ptr<NetworkLayer> conv(Fields& f, Shape& shape, const Init& init, const std::string& name) {
  auto layer = std::make_unique<Convolution>(name);
  const Kernel k(f, shape);
  layer->stride = k.stride;
  layer->padding = k.padding;
  shape = {k.out, windows(f, shape[1], k.size, k.stride, k.padding), windows(f, shape[2], k.size, k.stride, k.padding)};
  layer->weight = fresh(init, {k.out, k.in, k.size, k.size}, k.fan_in(), 0, 0.02);
  if (k.bias) layer->bias = fresh_bias(init, k.out, k.fan_in());
  return layer;
}

std::unique_ptr<NetworkLayer> conv_transpose(Fields& f, Shape& shape, const Init& init, const std::string& name) {
  auto layer = std::make_unique<TransposedConvolution>(name);
  const Kernel k(f, shape);
  layer->stride = k.stride;
  layer->padding = k.padding;
  layer->output_padding = f.not_negative("output_padding", 0);
  shape = {k.out, layer->grown(shape[1], k.size), layer->grown(shape[2], k.size)};
  if (shape[1] < 1 || shape[2] < 1) f.fail("leaves no pixels");
  layer->weight = fresh(init, {k.in, k.out, k.size, k.size}, k.fan_in(), 0, 0.02);
  if (k.bias) layer->bias = fresh_bias(init, k.out, k.fan_in());
  return layer;
}

}  // namespace

std::vector<LayerType> weighted_layers() {
  using Wants = LayerType::Wants;
  return {{"linear", "out, bias", linear, Wants::kVector},
          {"conv", "out, kernel, stride, padding, bias", conv, Wants::kImage},
          {"conv_transpose", "out, kernel, stride, padding, output_padding, bias", conv_transpose, Wants::kImage}};
}

}  // namespace hastings
