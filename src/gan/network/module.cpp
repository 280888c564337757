// A TorchScript module as a network.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include "../../core/torchscript.h"
#include "hastings/core/error.h"
#include "hastings/core/foreign.h"
#include "hastings/gan/network/network.h"

namespace hastings {
namespace {

class ModuleNetwork final : public Network {
 public:
  ModuleNetwork(std::string path, std::vector<int64_t> input, std::vector<int64_t> output)
      : path_(std::move(path)), input_(std::move(input)), output_(std::move(output)) {
    const ForeignCode foreign(path_);
    try {
      module_ = load_checked_module(path_);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      rethrow_if_out_of_memory(error);
      throw DataError(fmt::format("{}: is not a TorchScript module ({})", path_, first_line(error.what())));
    }
    features_ = module_.find_method("features").has_value();
    check();
  }

  Tensor forward(const Tensor& x, Tensor* features) const override {
    if (features != nullptr) *features = call("features", x).flatten(1);
    return call("forward", x);
  }
  bool has_features() const override { return features_; }
  const std::vector<int64_t>& input_shape() const override { return input_; }
  const std::vector<int64_t>& output_shape() const override { return output_; }
  void train(bool on, Stream*) override {
    if (on) throw ConfigError(fmt::format("{}: a TorchScript module is sampled with, not trained", path_));
  }
  Weights weights() const override { return {}; }
  std::vector<Tensor> parameters() const override { return {}; }
  void load(const Weights&, const std::string&, bool) override {}

 private:
  static std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

  Tensor call(const char* method, const Tensor& x) const {
    const at::NoGradGuard no_grad;
    const ForeignCode foreign(path_);
    try {
      const auto out = const_cast<torch::jit::Module&>(module_).get_method(method)({x});
      if (!out.isTensor()) throw DataError(fmt::format("{}: {} does not return a tensor", path_, method));
      return out.toTensor().to(at::kFloat);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      rethrow_if_out_of_memory(error);
      throw DataError(fmt::format("{}: {} fails on an input of [{}] ({})", path_, method, fmt::join(x.sizes(), ", "),
                                  first_line(error.what())));
    }
  }

  void check() const {
    std::vector<int64_t> shape = {2};
    shape.insert(shape.end(), input_.begin(), input_.end());
    const Tensor out = forward(at::zeros(shape), nullptr);
    int64_t wanted = 2;
    for (const int64_t n : output_) wanted *= n;
    if (out.numel() != wanted)
      throw DataError(fmt::format("{}: gives [{}] for two inputs; wanted are two of [{}]", path_,
                                  fmt::join(out.sizes(), ", "), fmt::join(output_, ", ")));
  }

  std::string path_;
  std::vector<int64_t> input_, output_;
  torch::jit::Module module_;
  bool features_ = false;
};

}  // namespace

std::unique_ptr<Network> load_module(const std::string& path, std::vector<int64_t> input, std::vector<int64_t> output) {
  return std::make_unique<ModuleNetwork>(path, std::move(input), std::move(output));
}

}  // namespace hastings
