// The critic of a Wasserstein GAN with gradient penalty (Gulrajani et al. 2017): fully connected, leaky ReLU.
//
// Between the kinks the network is linear in its input, so the derivative of the penalty, a derivative of a derivative,
// is one more pass forwards: a step costs a pass forwards and one back over all rows, one forwards over those of the
// penalty, and a product a layer.
#pragma once

#include <vector>

#include "hastings/core/random.h"
#include "hastings/core/tensor.h"

namespace hastings {

class Critic {
 public:
  Critic(uint64_t seed, int64_t in, const std::vector<int64_t>& hidden);

  // The loss, mean score of `fake` - mean score of `real` + penalty * mean (|slope at `between`| - 1)^2, and its
  // gradient in the order of parameters(). All [rows, in], float.
  struct Loss {
    double value;
    std::vector<Tensor> gradient;
  };
  Loss loss(const Tensor& fake, const Tensor& real, const Tensor& between, double penalty) const;

  // The derivative of each row's score with respect to the row, [rows, in].
  Tensor slope(const Tensor& x) const;

  const std::vector<Tensor>& parameters() const { return parameters_; }  // weight [in, out] and bias, layer by layer

 private:
  // Of one batch: what each layer was given, the slopes of its kinks, and the derivatives of a row's score with respect
  // to what a layer makes before the kink.
  struct Passes {
    std::vector<Tensor> input, kink, back;
    Tensor score;  // [rows]
  };
  Passes passes(const Tensor& x) const;
  const Tensor& weight(size_t layer) const { return parameters_[2 * layer]; }
  const Tensor& bias(size_t layer) const { return parameters_[2 * layer + 1]; }

  size_t layers_;
  std::vector<Tensor> parameters_;
};

}  // namespace hastings
