// Networks of images, built from a list of layers in JSON, or a TorchScript module.
//
//   {"input": [100], "layers": [
//     {"type": "linear", "out": 2048, "name": "fc"}, {"type": "reshape", "shape": [128, 4, 4]},
//     {"type": "batch_norm", "name": "bn"}, {"type": "relu"}, {"type": "conv_transpose", "out": 3, "kernel": 4, ...},
//     {"type": "tanh"}]}
//
// Sizes that follow from the input are not written. `name` is the prefix of the layer's tensors in a file of weights
// ("fc" for fc.weight and fc.bias); without one it is "main.<position>". docs/networks.md lists the layers.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "hastings/core/random.h"
#include "hastings/core/tensor.h"
#include "hastings/data/weights.h"

namespace hastings {

class Network {
 public:
  virtual ~Network() = default;

  // [n, input...] to [n, output...]. `features`, where given, becomes what the last layer with weights is applied to,
  // flattened: [n, width]; the output is linear in it. A module that does not show them has none.
  virtual Tensor forward(const Tensor& x, Tensor* features = nullptr) const = 0;
  virtual bool has_features() const = 0;

  virtual const std::vector<int64_t>& input_shape() const = 0;
  virtual const std::vector<int64_t>& output_shape() const = 0;

  // Batch statistics and dropout are used and updated while training, and only then. `dropout` is where its noise comes
  // from.
  virtual void train(bool on, Stream* dropout = nullptr) = 0;

  virtual Weights weights() const = 0;  // parameters and running statistics, as they are now
  virtual std::vector<Tensor> parameters() const = 0;
  // Every tensor must be there in its shape; a common prefix ("module.", "netG.") may stand before all names. Tensors
  // that belong to no layer are an error, unless `leftovers` are allowed.
  virtual void load(const Weights& weights, const std::string& file, bool leftovers = false) = 0;
};

// A layer list; ConfigError names the layer that makes no sense. With a stream, weights are drawn as DCGAN's are
// (normal, sd 0.02; batch norm scale around 1), or with {"init": "fan-in"} uniform by fan-in; without one they wait for
// load(). A few words may ask for more weights than any memory holds: more than `most` is a ConfigError.
constexpr int64_t kMaxWeights = int64_t{1} << 31;
// Of a network whose weights are in a file: what is there, and some more, so that a shape that does not fit is named.
inline int64_t most_weights(const Weights& weights) { return elements_in(weights) + (int64_t{1} << 24); }
std::unique_ptr<Network> build_network(const nlohmann::json& description, Stream* init = nullptr,
                                       int64_t most = kMaxWeights);

// The types of layers there are, each with the fields it knows beside type, name and comment.
std::vector<std::pair<std::string, std::string>> known_layers();

// A saved TorchScript module; shapes are what the user says.
std::unique_ptr<Network> load_module(const std::string& path, std::vector<int64_t> input, std::vector<int64_t> output);

}  // namespace hastings
