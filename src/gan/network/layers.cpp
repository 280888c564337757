#include "layers.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "../../core/arithmetic.h"
#include "conv_transpose.h"
#include "hastings/core/error.h"
#include "hastings/core/json.h"

namespace hastings {
namespace {

using nlohmann::json;

int64_t numel(const Shape& shape) { return elements_of(shape).value_or(-1); }

// One layer's JSON, read field by field; what nobody read is a misspelling.
class Fields {
 public:
  Fields(const json& j, std::string where) : json_(j), where_(std::move(where)) {
    if (!j.is_object()) fail("must be an object like {\"type\": \"relu\"}");
    type_ = get<std::string>("type");
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw ConfigError(fmt::format("{}{}: {}", where_, type_.empty() ? "" : " (" + type_ + ")", what));
  }
  bool has(const char* key) const { return json_.contains(key); }
  template <class T>
  T get(const char* key) {
    used_.insert(key);
    if (!json_.contains(key)) fail(fmt::format("needs '{}'", key));
    try {
      if constexpr (std::is_same_v<T, int64_t>) {
        return whole_number(fmt::format("'{}'", key), json_[key]);
      } else if constexpr (std::is_same_v<T, Shape>) {
        return whole_numbers(fmt::format("'{}'", key), json_[key]);
      } else {
        return json_[key].get<T>();
      }
    } catch (const json::exception&) {
      fail(fmt::format("'{}' has the value {}, which is of the wrong kind", key, json_[key].dump().substr(0, 60)));
    } catch (const DataError& error) {
      fail(error.what());
    }
  }
  template <class T>
  T get(const char* key, T otherwise) {
    used_.insert(key);
    return json_.contains(key) ? get<T>(key) : otherwise;
  }
  int64_t positive(const char* key) { return within(key, get<int64_t>(key), 1); }
  int64_t positive(const char* key, int64_t otherwise) {
    return has(key) ? positive(key) : (used_.insert(key), otherwise);
  }
  int64_t not_negative(const char* key, int64_t otherwise) { return within(key, get<int64_t>(key, otherwise), 0); }
  void finish() const {
    for (const auto& [key, value] : json_.items()) {
      if (!used_.contains(key) && key != "comment") fail(fmt::format("does not know '{}'", key));
    }
  }
  const std::string& type() const { return type_; }
  const std::string& where() const { return where_; }

 private:
  int64_t within(const char* key, int64_t value, int64_t least) const {
    constexpr int64_t kMost = 1 << 20;
    if (value < least || value > kMost)
      fail(fmt::format("'{}' is {}: must be from {} to {}", key, value, least, kMost));
    return value;
  }
  const json& json_;
  std::string where_, type_;
  std::set<std::string> used_;
};

Tensor fresh(const Init& init, at::IntArrayRef shape, int64_t fan_in, double mean, double sd) {
  const int64_t count = numel(shape.vec());
  if (init.left != nullptr && (count < 0 || (*init.left -= count) < 0))
    throw ConfigError("its layers ask for more weights than there are, or than any network has");
  if (init.stream == nullptr) return at::empty(shape, at::kFloat);
  if (init.fan_in) {
    const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
    return ((init.stream->uniform(shape) * 2 - 1) * bound).to(at::kFloat);
  }
  return (init.stream->normal(shape) * sd + mean).to(at::kFloat);
}

Tensor fresh_bias(const Init& init, int64_t size, int64_t fan_in) {
  return init.fan_in ? fresh(init, {size}, fan_in, 0, 0) : at::zeros({size}, at::kFloat);
}

// y = W x + b with W dense, convolved, or convolved the other way round.
class Weighted final : public NetworkLayer {
 public:
  enum class Kind { kLinear, kConv, kConvTranspose };
  Kind kind = Kind::kLinear;
  std::string name;
  Tensor weight, bias;
  int64_t stride = 1, padding = 0, output_padding = 0;

  Tensor forward(const Tensor& x, const ForwardContext&) const override {
    switch (kind) {
      case Kind::kLinear:
        return at::linear(x, weight, bias);
      case Kind::kConv:
        return at::conv2d(x, weight, bias, stride, padding);
      case Kind::kConvTranspose:
        return conv_transpose(x);
    }
    return x;
  }
  Tensor conv_transpose(const Tensor& x) const {
    auto grown = [&](int64_t n) { return (n - 1) * stride - 2 * padding + weight.size(2); };
    // The backward of the fast way is not itself differentiable: no matter for a generator.
    if (output_padding > 0) return at::conv_transpose2d(x, weight, bias, stride, padding, output_padding);
    const Tensor y = ConvTranspose::apply(x, weight, stride, padding, grown(x.size(2)), grown(x.size(3)));
    return bias.defined() ? y + bias.view({1, -1, 1, 1}) : y;
  }
  bool has_weights() const override { return true; }
  bool linear() const override { return true; }
  void collect(std::map<std::string, Tensor>& tensors) const override {
    tensors[name + ".weight"] = weight;
    if (bias.defined()) tensors[name + ".bias"] = bias;
  }
  void collect_parameters(std::vector<Tensor>& parameters) const override {
    parameters.push_back(weight);
    if (bias.defined()) parameters.push_back(bias);
  }
};

// Batch, instance and layer norm.
class Norm final : public NetworkLayer {
 public:
  enum class Kind { kBatch, kInstance, kLayer };
  Kind kind = Kind::kBatch;
  std::string name;
  double eps = 1e-5, momentum = 0.1;
  Tensor weight, bias, mean, variance;  // undefined: without
  Shape shape;                          // layer norm's

  Tensor forward(const Tensor& x, const ForwardContext& context) const override {
    switch (kind) {
      case Kind::kBatch:
        return at::batch_norm(x, weight, bias, mean, variance, context.training, momentum, eps, false);
      case Kind::kInstance:
        return at::instance_norm(x, weight, bias, {}, {}, true, 0.0, eps, false);
      case Kind::kLayer:
        return at::layer_norm(x, shape, weight, bias, eps);
    }
    return x;
  }
  bool has_weights() const override { return weight.defined(); }
  void collect(std::map<std::string, Tensor>& tensors) const override {
    if (weight.defined()) {
      tensors[name + ".weight"] = weight;
      tensors[name + ".bias"] = bias;
    }
    if (mean.defined()) {
      tensors[name + ".running_mean"] = mean;
      tensors[name + ".running_var"] = variance;
    }
  }
  void collect_parameters(std::vector<Tensor>& parameters) const override {
    if (!weight.defined()) return;
    parameters.push_back(weight);
    parameters.push_back(bias);
  }
};

class Stateless final : public NetworkLayer {
 public:
  using Function = std::function<Tensor(const Tensor&, const ForwardContext&)>;
  explicit Stateless(Function f) : f_(std::move(f)) {}
  Tensor forward(const Tensor& x, const ForwardContext& context) const override { return f_(x, context); }

 private:
  Function f_;
};

// Several lists side by side on the same input: added up (a residual block) or put behind one another by channels.
class Parallel final : public NetworkLayer {
 public:
  bool add = true;
  std::vector<LayerList> branches;

  Tensor forward(const Tensor& x, const ForwardContext& context) const override {
    std::vector<Tensor> parts;
    for (const auto& b : branches) parts.push_back(run_layers(b, x, context));
    if (!add) return at::cat(parts, 1);
    Tensor sum = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) sum = sum + parts[i];
    return sum;
  }
  bool has_weights() const override {
    for (const auto& b : branches) {
      for (const auto& layer : b) {
        if (layer->has_weights()) return true;
      }
    }
    return false;
  }
  void collect(std::map<std::string, Tensor>& tensors) const override {
    for (const auto& b : branches) {
      for (const auto& layer : b) layer->collect(tensors);
    }
  }
  void collect_parameters(std::vector<Tensor>& parameters) const override {
    for (const auto& b : branches) {
      for (const auto& layer : b) layer->collect_parameters(parameters);
    }
  }
};

std::unique_ptr<NetworkLayer> stateless(Stateless::Function f) { return std::make_unique<Stateless>(std::move(f)); }

void need_image(Fields& f, const Shape& shape) {
  if (shape.size() != 3) f.fail(fmt::format("needs [channels, height, width], but has [{}]", fmt::join(shape, ", ")));
}

// (n + 2 padding - kernel) / stride + 1, checked.
int64_t windows(Fields& f, int64_t n, int64_t kernel, int64_t stride, int64_t padding) {
  const int64_t room = n + 2 * padding - kernel;
  if (room < 0) f.fail(fmt::format("a kernel of {} does not fit into {} with padding {}", kernel, n, padding));
  return room / stride + 1;
}

std::unique_ptr<NetworkLayer> weighted(Fields& f, Shape& shape, const Init& init, const std::string& name) {
  auto layer = std::make_unique<Weighted>();
  layer->name = name;
  const int64_t out = f.positive("out");
  const bool bias = f.get<bool>("bias", true);
  if (f.type() == "linear") {
    if (shape.size() != 1) shape = {numel(shape)};  // as if flattened; forward sees the flat tensor
    layer->weight = fresh(init, {out, shape[0]}, shape[0], 0, 0.02);
    if (bias) layer->bias = fresh_bias(init, out, shape[0]);
    shape = {out};
    return layer;
  }
  if (shape.size() == 1) shape = {shape[0], 1, 1};
  need_image(f, shape);
  const int64_t in = shape[0], kernel = f.positive("kernel");
  layer->stride = f.positive("stride", 1);
  layer->padding = f.not_negative("padding", 0);
  if (f.type() == "conv") {
    layer->kind = Weighted::Kind::kConv;
    shape = {out, windows(f, shape[1], kernel, layer->stride, layer->padding),
             windows(f, shape[2], kernel, layer->stride, layer->padding)};
    layer->weight = fresh(init, {out, in, kernel, kernel}, in * kernel * kernel, 0, 0.02);
  } else {
    layer->kind = Weighted::Kind::kConvTranspose;
    layer->output_padding = f.not_negative("output_padding", 0);
    auto grown = [&](int64_t n) {
      return (n - 1) * layer->stride - 2 * layer->padding + kernel + layer->output_padding;
    };
    shape = {out, grown(shape[1]), grown(shape[2])};
    if (shape[1] < 1 || shape[2] < 1) f.fail("leaves no pixels");
    layer->weight = fresh(init, {in, out, kernel, kernel}, in * kernel * kernel, 0, 0.02);
  }
  if (bias) layer->bias = fresh_bias(init, out, in * kernel * kernel);
  return layer;
}

std::unique_ptr<NetworkLayer> norm(Fields& f, const Shape& shape, const Init& init, const std::string& name) {
  auto layer = std::make_unique<Norm>();
  layer->name = name;
  layer->eps = f.get<double>("eps", 1e-5);
  if (f.type() == "layer_norm") {
    layer->kind = Norm::Kind::kLayer;
    layer->shape = shape;
  } else if (f.type() == "instance_norm") {
    layer->kind = Norm::Kind::kInstance;
    need_image(f, shape);
  } else {
    layer->momentum = f.get<double>("momentum", 0.1);
    layer->mean = at::zeros({shape[0]}, at::kFloat);
    layer->variance = at::ones({shape[0]}, at::kFloat);
  }
  if (f.get<bool>("affine", f.type() != "instance_norm")) {
    const Shape size = f.type() == "layer_norm" ? shape : Shape{shape[0]};
    layer->weight = init.stream == nullptr || init.fan_in ? at::ones(size, at::kFloat) : fresh(init, size, 1, 1, 0.02);
    layer->bias = at::zeros(size, at::kFloat);
  }
  return layer;
}

std::unique_ptr<NetworkLayer> pool(Fields& f, Shape& shape) {
  need_image(f, shape);
  const int64_t kernel = f.positive("kernel"), stride = f.positive("stride", kernel),
                padding = f.not_negative("padding", 0);
  shape = {shape[0], windows(f, shape[1], kernel, stride, padding), windows(f, shape[2], kernel, stride, padding)};
  if (f.type() == "max_pool")
    return stateless(
        [=](const Tensor& x, const ForwardContext&) { return at::max_pool2d(x, kernel, stride, padding); });
  const bool count_pad = f.get<bool>("count_include_pad", true);
  return stateless([=](const Tensor& x, const ForwardContext&) {
    return at::avg_pool2d(x, kernel, stride, padding, false, count_pad);
  });
}

std::unique_ptr<NetworkLayer> parallel(Fields& f, Shape& shape, const Init& init) {
  auto layer = std::make_unique<Parallel>();
  layer->add = f.type() == "residual";
  std::vector<json> lists;
  if (layer->add) {
    lists = {f.get<json>("layers"), f.get<json>("shortcut", json::array())};
  } else {
    lists = f.get<std::vector<json>>("branches");
    if (lists.empty()) f.fail("has no branches");
  }
  Shape out;
  for (size_t b = 0; b < lists.size(); ++b) {
    Shape branch = shape;
    layer->branches.push_back(build_layers(lists[b], branch, init, fmt::format("{}, branch {}", f.where(), b)));
    if (b == 0) {
      out = branch;
    } else if (layer->add) {
      if (branch != out) f.fail(fmt::format("adds [{}] and [{}]", fmt::join(out, ", "), fmt::join(branch, ", ")));
    } else {
      if (branch.size() != out.size() || !std::equal(branch.begin() + 1, branch.end(), out.begin() + 1))
        f.fail("joins branches of different size");
      out[0] += branch[0];
    }
  }
  shape = out;
  return layer;
}

std::unique_ptr<NetworkLayer> activation(Fields& f) {
  const std::string& type = f.type();
  if (type == "relu") return stateless([](const Tensor& x, const ForwardContext&) { return at::relu(x); });
  if (type == "tanh") return stateless([](const Tensor& x, const ForwardContext&) { return at::tanh(x); });
  if (type == "sigmoid") return stateless([](const Tensor& x, const ForwardContext&) { return at::sigmoid(x); });
  if (type == "silu") return stateless([](const Tensor& x, const ForwardContext&) { return at::silu(x); });
  if (type == "elu") return stateless([](const Tensor& x, const ForwardContext&) { return at::elu(x); });
  if (type == "gelu") return stateless([](const Tensor& x, const ForwardContext&) { return at::gelu(x); });
  if (type == "softplus") return stateless([](const Tensor& x, const ForwardContext&) { return at::softplus(x); });
  if (type == "leaky_relu") {
    const double slope = f.get<double>("slope", 0.2);
    return stateless([slope](const Tensor& x, const ForwardContext&) { return at::leaky_relu(x, slope); });
  }
  return nullptr;
}

std::unique_ptr<NetworkLayer> dropout(Fields& f) {
  const double p = f.get<double>("p", 0.5);
  if (!(p >= 0 && p < 1)) f.fail(fmt::format("'p' is {}: must be at least 0 and below 1", p));
  return stateless([p](const Tensor& x, const ForwardContext& context) {
    if (!context.training || context.noise == nullptr) return x;
    return x * (context.noise->uniform(x.sizes()) >= p).to(x.scalar_type()).div_(1 - p);
  });
}

// (x * scale - mean) / std, by channels: what a classifier wants its input like.
std::unique_ptr<NetworkLayer> normalise(Fields& f, const Shape& shape) {
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

std::unique_ptr<NetworkLayer> reshaped(Fields& f, Shape& shape) {
  const std::string& type = f.type();
  if (type == "flatten") {
    shape = {numel(shape)};
    return stateless([](const Tensor& x, const ForwardContext&) { return x.flatten(1); });
  }
  if (type == "reshape") {
    const auto to = f.get<Shape>("shape");
    if (numel(to) < 0 || numel(to) != numel(shape))
      f.fail(fmt::format("cannot make [{}] of [{}]", fmt::join(to, ", "), fmt::join(shape, ", ")));
    shape = to;
    Shape full = {-1};
    full.insert(full.end(), to.begin(), to.end());
    return stateless([full](const Tensor& x, const ForwardContext&) { return x.reshape(full); });
  }
  if (type == "identity") return stateless([](const Tensor& x, const ForwardContext&) { return x; });
  if (type == "pad") {  // edge pixels of zeros, and channels of zeros
    need_image(f, shape);
    const int64_t pixels = f.not_negative("pixels", 0), before = f.not_negative("channels_before", 0),
                  after = f.not_negative("channels_after", 0);
    shape = {shape[0] + before + after, shape[1] + 2 * pixels, shape[2] + 2 * pixels};
    return stateless([=](const Tensor& x, const ForwardContext&) {
      return at::constant_pad_nd(x, {pixels, pixels, pixels, pixels, before, after});
    });
  }
  if (type == "subsample") {  // every n-th pixel
    need_image(f, shape);
    const int64_t step = f.positive("step");
    shape = {shape[0], (shape[1] + step - 1) / step, (shape[2] + step - 1) / step};
    return stateless([step](const Tensor& x, const ForwardContext&) {
      return x.slice(2, 0, x.size(2), step).slice(3, 0, x.size(3), step);
    });
  }
  if (type == "upsample") {  // nearest neighbour
    need_image(f, shape);
    const int64_t factor = f.positive("factor", 2);
    shape = {shape[0], shape[1] * factor, shape[2] * factor};
    const Shape size = {shape[1], shape[2]};
    return stateless([size](const Tensor& x, const ForwardContext&) { return at::upsample_nearest2d(x, size); });
  }
  if (type == "resize") {  // bilinear
    need_image(f, shape);
    const int64_t size = f.positive("size");
    shape = {shape[0], size, size};
    return stateless([size](const Tensor& x, const ForwardContext&) {
      return at::upsample_bilinear2d(x, {size, size}, false);
    });
  }
  if (type == "global_mean") {
    need_image(f, shape);
    shape = {shape[0]};
    return stateless([](const Tensor& x, const ForwardContext&) { return x.mean({2, 3}); });
  }
  return nullptr;
}

std::unique_ptr<NetworkLayer> build_layer(Fields& f, Shape& shape, const Init& init, const std::string& position) {
  static const std::set<std::string> weighted_types = {"linear", "conv", "conv_transpose"},
                                     norms = {"batch_norm", "instance_norm", "layer_norm"};
  const std::string name = f.get<std::string>("name", position);
  if (weighted_types.contains(f.type())) return weighted(f, shape, init, name);
  if (norms.contains(f.type())) return norm(f, shape, init, name);
  if (f.type() == "max_pool" || f.type() == "avg_pool") return pool(f, shape);
  if (f.type() == "residual" || f.type() == "branches") return parallel(f, shape, init);
  if (f.type() == "dropout") return dropout(f);
  if (f.type() == "normalise") return normalise(f, shape);
  if (auto layer = activation(f)) return layer;
  auto layer = reshaped(f, shape);
  if (!layer) f.fail("is not a layer; docs/networks.md lists them");
  return layer;
}

}  // namespace

LayerList build_layers(const json& list, Shape& shape, const Init& init, const std::string& path) {
  if (!list.is_array()) throw ConfigError(fmt::format("{}: must be a list of layers", path));
  LayerList out;
  for (size_t i = 0; i < list.size(); ++i) {
    Fields f(list[i], fmt::format("{} layer {}", path, i));
    const Shape before = shape;
    auto layer = build_layer(f, shape, init, fmt::format("main.{}", i));
    f.finish();
    if (numel(shape) < 0 || numel(shape) > kMaxValues)
      f.fail(fmt::format("gives [{}], more than {} values", fmt::join(shape, ", "), kMaxValues));
    // A vector into a convolution is an image of one pixel; an image into a linear layer is flattened.
    if (layer->linear() && f.type() == "linear" && before.size() != 1)
      out.push_back(stateless([](const Tensor& x, const ForwardContext&) { return x.flatten(1); }));
    if (layer->linear() && f.type() != "linear" && before.size() == 1)
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
