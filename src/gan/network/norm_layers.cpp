// Batch, instance and layer norm.
#include <ATen/ATen.h>

#include "layer_types.h"

namespace hastings {
namespace {

class Norm : public NetworkLayer {
 public:
  Norm(std::string name, double eps) : eps_(eps), name_(std::move(name)) {}
  bool has_weights() const override { return weight_.defined(); }
  void collect(std::map<std::string, Tensor>& tensors) const override {
    if (!weight_.defined()) return;
    tensors[name_ + ".weight"] = weight_;
    tensors[name_ + ".bias"] = bias_;
  }
  void collect_parameters(std::vector<Tensor>& parameters) const override {
    if (!weight_.defined()) return;
    parameters.push_back(weight_);
    parameters.push_back(bias_);
  }
  // A scale and a shift of this size to learn.
  void make_affine(const Shape& size, const Init& init) {
    weight_ = init.stream == nullptr || init.fan_in ? at::ones(size, at::kFloat) : fresh(init, size, 1, 1, 0.02);
    bias_ = at::zeros(size, at::kFloat);
  }

 protected:
  const std::string& name() const { return name_; }
  double eps_;
  Tensor weight_, bias_;  // undefined: without

 private:
  std::string name_;
};

class BatchNorm final : public Norm {
 public:
  BatchNorm(const std::string& name, double eps, double momentum, int64_t channels)
      : Norm(name, eps),
        momentum_(momentum),
        mean_(at::zeros({channels}, at::kFloat)),
        variance_(at::ones({channels}, at::kFloat)) {}
  Tensor forward(const Tensor& x, const ForwardContext& context) const override {
    return at::batch_norm(x, weight_, bias_, mean_, variance_, context.training, momentum_, eps_, false);
  }
  void collect(std::map<std::string, Tensor>& tensors) const override {
    Norm::collect(tensors);
    tensors[name() + ".running_mean"] = mean_;
    tensors[name() + ".running_var"] = variance_;
  }

 private:
  double momentum_;
  Tensor mean_, variance_;
};

class InstanceNorm final : public Norm {
 public:
  using Norm::Norm;
  Tensor forward(const Tensor& x, const ForwardContext&) const override {
    return at::instance_norm(x, weight_, bias_, {}, {}, true, 0.0, eps_, false);
  }
};

class LayerNorm final : public Norm {
 public:
  LayerNorm(const std::string& name, double eps, Shape shape) : Norm(name, eps), shape_(std::move(shape)) {}
  Tensor forward(const Tensor& x, const ForwardContext&) const override {
    return at::layer_norm(x, shape_, weight_, bias_, eps_);
  }

 private:
  Shape shape_;
};

double eps(Fields& f) { return f.get<double>("eps", 1e-5); }

std::unique_ptr<NetworkLayer> batch_norm(Fields& f, Shape& shape, const Init& init, const std::string& name) {
  const double e = eps(f), momentum = f.get<double>("momentum", 0.1);
  auto layer = std::make_unique<BatchNorm>(name, e, momentum, shape[0]);
  if (f.get<bool>("affine", true)) layer->make_affine({shape[0]}, init);
  return layer;
}

std::unique_ptr<NetworkLayer> instance_norm(Fields& f, Shape& shape, const Init& init, const std::string& name) {
  auto layer = std::make_unique<InstanceNorm>(name, eps(f));
  need_image(f, shape);
  if (f.get<bool>("affine", false)) layer->make_affine({shape[0]}, init);
  return layer;
}

std::unique_ptr<NetworkLayer> layer_norm(Fields& f, Shape& shape, const Init& init, const std::string& name) {
  auto layer = std::make_unique<LayerNorm>(name, eps(f), shape);
  if (f.get<bool>("affine", true)) layer->make_affine(shape, init);
  return layer;
}

}  // namespace

std::vector<LayerType> norm_layers() {
  return {{"batch_norm", "eps, momentum, affine", batch_norm},
          {"instance_norm", "eps, affine", instance_norm},
          {"layer_norm", "eps, affine", layer_norm}};
}

}  // namespace hastings
