// Small networks and Adam on tensors, for the baselines: recorded by LibTorch's autograd.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <vector>

#include "hastings/core/random.h"

namespace hastings::baseline {

// Leaves of the graph, in the order they were made.
class Leaves {
 public:
  Leaves(uint64_t seed, at::ScalarType type) : stream_(seed, 0, Purpose::kWeights), type_(type) {}
  // N(0, scale^2 / fan_in), or zeros.
  Tensor add(at::IntArrayRef shape, double scale) {
    Tensor t = scale == 0 ? at::zeros(shape, type_)
                          : (stream_.normal(shape) * (scale / std::sqrt(static_cast<double>(shape[0])))).to(type_);
    t.requires_grad_(true);
    all_.push_back(t);
    return t;
  }
  const std::vector<Tensor>& all() const { return all_; }

 private:
  Stream stream_;
  at::ScalarType type_;
  std::vector<Tensor> all_;
};

// Fully connected, ReLU between.
class Dense {
 public:
  Dense(Leaves& leaves, int64_t in, const std::vector<int64_t>& hidden, int64_t out, double last_scale) {
    int64_t from = in;
    for (const int64_t width : hidden) {
      weight_.push_back(leaves.add({from, width}, std::sqrt(2.0)));
      bias_.push_back(leaves.add({width}, 0));
      from = width;
    }
    weight_.push_back(leaves.add({from, out}, last_scale));
    bias_.push_back(leaves.add({out}, 0));
  }
  Tensor operator()(Tensor x) const {
    for (size_t i = 0; i < weight_.size(); ++i) {
      x = at::addmm(bias_[i], x, weight_[i]);
      if (i + 1 < weight_.size()) x = at::relu(x);
    }
    return x;
  }

 private:
  std::vector<Tensor> weight_, bias_;
};

class TensorAdam {
 public:
  TensorAdam(std::vector<Tensor> parameters, double beta1, double beta2)
      : parameters_(std::move(parameters)), beta1_(beta1), beta2_(beta2) {
    for (const auto& p : parameters_) {
      first_.push_back(at::zeros_like(p));
      second_.push_back(at::zeros_like(p));
    }
  }
  // False if a gradient is not finite: then nothing moves.
  bool step(const Tensor& loss, double rate) {
    const auto gradients = torch::autograd::grad({loss}, parameters_, {}, {}, false, /*allow_unused=*/true);
    const at::NoGradGuard no_grad;
    double square = 0;
    for (const auto& g : gradients) {
      if (g.defined()) square += g.square().sum().item<double>();
    }
    if (!std::isfinite(square)) return false;
    const double clip = std::sqrt(square) > kClip ? kClip / std::sqrt(square) : 1;
    ++steps_;
    const double scale = rate * std::sqrt(1 - std::pow(beta2_, steps_)) / (1 - std::pow(beta1_, steps_));
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (!gradients[i].defined()) continue;
      const Tensor g = gradients[i] * clip;
      first_[i].mul_(beta1_).add_(g, 1 - beta1_);
      second_[i].mul_(beta2_).addcmul_(g, g, 1 - beta2_);
      parameters_[i].addcdiv_(first_[i], second_[i].sqrt().add_(1e-8), -scale);
    }
    return true;
  }

 private:
  static constexpr double kClip = 100;
  std::vector<Tensor> parameters_, first_, second_;
  double beta1_, beta2_;
  int steps_ = 0;
};

}  // namespace hastings::baseline
