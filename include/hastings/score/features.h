// Features of images, for distances between sets of them.
#pragma once

#include <memory>
#include <string>

#include "hastings/core/tensor.h"
#include "hastings/gan/network.h"

namespace hastings {

// A network whose output is taken as features: a layer list with weights,
//   {"name": "LeNet-5 f6", "input": [1, 28, 28], "layers": [...], "weights": "lenet5.safetensors"}
// It sees images of bytes divided by 255; resizing and normalising are layers. Weights it does not use may be in the
// file.
class FeatureNetwork {
 public:
  explicit FeatureNetwork(const std::string& path, const std::string& weights = "");
  Tensor operator()(const Tensor& pixels, int threads) const;  // uint8 [n, c, h, w] to float [n, d]
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::unique_ptr<Network> network_;
};

}  // namespace hastings
