// Features of images, for distances between sets of them and as a second opinion beside the discriminator's.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "hastings/core/tensor.h"
#include "hastings/gan/network/network.h"

namespace hastings {

// A network whose output is taken as features: a layer list with weights,
//   {"name": "LeNet-5 f6", "input": [1, 28, 28], "layers": [...], "weights": "lenet5.safetensors"}
// It sees images of bytes divided by 255; resizing and normalising are layers. Weights it does not use may be in the
// file.
class FeatureNetwork {
 public:
  explicit FeatureNetwork(const std::string& path, const std::string& weights = "");
  // From the description's text, with weights at hand.
  FeatureNetwork(const std::string& description, const Weights& weights);

  Tensor operator()(const Tensor& pixels, int threads) const;  // uint8 [n, c, h, w] to float [n, d]
  Tensor of_images(const Tensor& images) const;                // the same for floats in -1 to 1, on this thread
  const std::string& name() const { return name_; }
  // STEM.json and STEM.safetensors: what the constructor opens.
  void save(const std::string& stem) const;

 private:
  void build(const nlohmann::json& description, const std::string& file, const Weights& weights,
             const std::string& weight_file);
  Tensor forward(const Tensor& images) const;  // of floats from 0 to 1

  std::string name_, description_;
  std::unique_ptr<Network> network_;
};

}  // namespace hastings
