#include "hastings/gan/network/network.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>

#include "../../core/arithmetic.h"
#include "hastings/core/error.h"
#include "hastings/core/json.h"
#include "layers.h"

namespace hastings {
namespace {

using nlohmann::json;

class LayerNetwork final : public Network {
 public:
  LayerNetwork(const json& description, Stream* init, int64_t most) {
    if (!description.is_object() || !description.contains("input") || !description.contains("layers"))
      throw ConfigError("a network needs 'input' (its shape) and 'layers' (a list)");
    try {
      input_ = whole_numbers("a network's 'input'", description["input"]);
    } catch (const DataError& error) {
      throw ConfigError(error.what());
    }
    for (const int64_t n : input_) {
      if (n < 1 || n > 1 << 20) throw ConfigError(fmt::format("a network's 'input' has size {}", n));
    }
    if (input_.empty() || elements_of(input_).value_or(kMaxValues + 1) > kMaxValues)
      throw ConfigError(fmt::format("a network's 'input' has no sizes, or more than {} values", kMaxValues));
    Init how;
    how.stream = init;
    how.left = &most;
    if (description.contains("init") && !description["init"].is_string())
      throw ConfigError("a network's 'init' must be dcgan or fan-in");
    const std::string kind = description.value("init", "dcgan");
    if (kind != "dcgan" && kind != "fan-in") throw ConfigError(fmt::format("init '{}': must be dcgan or fan-in", kind));
    how.fan_in = kind == "fan-in";
    output_ = input_;
    layers_ = build_layers(description["layers"], output_, how, "network");
    for (size_t i = 0; i < layers_.size(); ++i) {
      layers_[i]->collect(tensors_);
      layers_[i]->collect_parameters(parameters_);
      if (layers_[i]->has_weights()) last_ = i;
    }
    for (auto& p : parameters_) p.set_requires_grad(init != nullptr);
  }

  Tensor forward(const Tensor& x, Tensor* features) const override {
    Tensor h = x;
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (features != nullptr && i == last_) *features = h.flatten(1);
      h = layers_[i]->forward(h, context_);
    }
    return h;
  }

  bool has_features() const override {
    return !layers_.empty() && layers_[last_]->linear() && last_ + 2 >= layers_.size();
  }

  const Shape& input_shape() const override { return input_; }
  const Shape& output_shape() const override { return output_; }

  void train(bool on, Stream* noise) override {
    context_.training = on;
    context_.noise = noise;
  }

  Weights weights() const override { return {tensors_.begin(), tensors_.end()}; }
  std::vector<Tensor> parameters() const override { return parameters_; }

  void load(const Weights& given, const std::string& file, bool leftovers) override {
    const std::string prefix = common_prefix(given);
    std::set<std::string> unused;
    for (const auto& [name, value] : given) unused.insert(name);
    for (auto& [name, tensor] : tensors_) {
      const auto found = given.find(prefix + name);
      if (found == given.end())
        throw DataError(fmt::format("{}: has no tensor '{}'; it has {}", file, prefix + name, names_of(given)));
      if (found->second.sizes() != tensor.sizes())
        throw DataError(fmt::format("{}: tensor '{}' has shape [{}], the network wants [{}]", file, prefix + name,
                                    fmt::join(found->second.sizes(), ", "), fmt::join(tensor.sizes(), ", ")));
      const at::NoGradGuard no_grad;
      tensor.copy_(found->second);
      unused.erase(prefix + name);
    }
    for (const auto& name : unused) {
      if (!leftovers && !name.ends_with("num_batches_tracked"))
        throw DataError(fmt::format("{}: tensor '{}' belongs to no layer of the network", file, name));
    }
  }

 private:
  static std::string names_of(const Weights& given) {
    std::string out;
    int count = 0;
    for (const auto& [name, value] : given) {
      if (++count > 8) return out + ", ...";
      out += (out.empty() ? "" : ", ") + name;
    }
    return out;
  }

  // What stands before all of our names in the file, if it is always the same.
  std::string common_prefix(const Weights& given) const {
    if (tensors_.empty() || given.contains(tensors_.begin()->first)) return "";
    const std::string& wanted = tensors_.begin()->first;
    for (const auto& [name, value] : given) {
      if (!name.ends_with("." + wanted)) continue;
      const std::string prefix = name.substr(0, name.size() - wanted.size());
      bool all = true;
      for (const auto& [ours, tensor] : tensors_) all = all && given.contains(prefix + ours);
      if (all) return prefix;
    }
    return "";
  }

  Shape input_, output_;
  LayerList layers_;
  size_t last_ = 0;  // the last layer with weights
  std::map<std::string, Tensor> tensors_;
  std::vector<Tensor> parameters_;
  ForwardContext context_;
};

}  // namespace

std::unique_ptr<Network> build_network(const json& description, Stream* init, int64_t most) {
  return std::make_unique<LayerNetwork>(description, init, most);
}

}  // namespace hastings
