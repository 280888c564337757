// Several lists side by side on the same input: added up (a residual block) or put behind one another by channels.
#include <ATen/ATen.h>

#include "layer_types.h"

namespace hastings {
namespace {

using nlohmann::json;

class Parallel : public NetworkLayer {
 public:
  explicit Parallel(std::vector<LayerList> branches) : branches_(std::move(branches)) {}

  Tensor forward(const Tensor& x, const ForwardContext& context) const override {
    std::vector<Tensor> parts;
    for (const auto& b : branches_) parts.push_back(run_layers(b, x, context));
    return joined(parts);
  }
  bool has_weights() const override {
    for (const auto& b : branches_) {
      for (const auto& layer : b) {
        if (layer->has_weights()) return true;
      }
    }
    return false;
  }
  void collect(std::map<std::string, Tensor>& tensors) const override {
    for (const auto& b : branches_) {
      for (const auto& layer : b) layer->collect(tensors);
    }
  }
  void collect_parameters(std::vector<Tensor>& parameters) const override {
    for (const auto& b : branches_) {
      for (const auto& layer : b) layer->collect_parameters(parameters);
    }
  }

 private:
  virtual Tensor joined(const std::vector<Tensor>& parts) const = 0;
  std::vector<LayerList> branches_;
};

class Sum final : public Parallel {
  using Parallel::Parallel;
  Tensor joined(const std::vector<Tensor>& parts) const override {
    Tensor sum = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) sum = sum + parts[i];
    return sum;
  }
};

class Concatenation final : public Parallel {
  using Parallel::Parallel;
  Tensor joined(const std::vector<Tensor>& parts) const override { return at::cat(parts, 1); }
};

// One list of them; `shape` becomes its output's.
LayerList branch(const Fields& f, const json& list, size_t number, Shape& shape, const Init& init) {
  return build_layers(list, shape, init, fmt::format("{}, branch {}", f.where(), number));
}

std::unique_ptr<NetworkLayer> residual(Fields& f, Shape& shape, const Init& init, const std::string&) {
  const json layers = f.get<json>("layers"), shortcut = f.get<json>("shortcut", json::array());
  Shape out = shape, other = shape;
  std::vector<LayerList> branches;
  branches.push_back(branch(f, layers, 0, out, init));
  branches.push_back(branch(f, shortcut, 1, other, init));
  if (other != out) f.fail(fmt::format("adds [{}] and [{}]", fmt::join(out, ", "), fmt::join(other, ", ")));
  shape = out;
  return std::make_unique<Sum>(std::move(branches));
}

std::unique_ptr<NetworkLayer> concatenated(Fields& f, Shape& shape, const Init& init, const std::string&) {
  const auto lists = f.get<std::vector<json>>("branches");
  if (lists.empty()) f.fail("has no branches");
  Shape out;
  std::vector<LayerList> branches;
  for (size_t b = 0; b < lists.size(); ++b) {
    Shape own = shape;
    branches.push_back(branch(f, lists[b], b, own, init));
    if (b == 0) {
      out = own;
      continue;
    }
    if (own.size() != out.size() || !std::equal(own.begin() + 1, own.end(), out.begin() + 1))
      f.fail("joins branches of different size");
    out[0] += own[0];
  }
  shape = out;
  return std::make_unique<Concatenation>(std::move(branches));
}

}  // namespace

std::vector<LayerType> parallel_layers() {
  return {{"residual", "layers, shortcut", residual}, {"branches", "branches", concatenated}};
}

}  // namespace hastings
