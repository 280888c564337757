// Adam (Kingma and Ba 2015) on tensors that autograd knows, in their own precision.
#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "hastings/core/tensor.h"

namespace hastings {

class TensorAdam {
 public:
  TensorAdam(std::vector<Tensor> parameters, double beta1, double beta2)
      : parameters_(std::move(parameters)), beta1_(beta1), beta2_(beta2) {
    for (const auto& p : parameters_) {
      first_.push_back(at::zeros_like(p, at::TensorOptions().requires_grad(false)));
      second_.push_back(at::zeros_like(p, at::TensorOptions().requires_grad(false)));
    }
  }

  // A gradient that is not defined leaves its parameter where it is.
  void step(const std::vector<Tensor>& gradients, double rate) {
    const at::NoGradGuard no_grad;
    ++steps_;
    const auto t = static_cast<double>(steps_);
    const double correction1 = 1 - std::pow(beta1_, t), correction2 = 1 - std::pow(beta2_, t);
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (!gradients[i].defined()) continue;
      first_[i].mul_(beta1_).add_(gradients[i], 1 - beta1_);
      second_[i].mul_(beta2_).addcmul_(gradients[i], gradients[i], 1 - beta2_);
      const Tensor scale = second_[i].sqrt().div_(std::sqrt(correction2)).add_(1e-8);
      parameters_[i].addcdiv_(first_[i], scale, -rate / correction1);
    }
  }

  const std::vector<Tensor>& parameters() const { return parameters_; }

  // Its memory, under names that begin with `name`; `find` gives a stored tensor by its name.
  void save(const std::string& name, std::map<std::string, Tensor>& state) const {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      state[fmt::format("{}.first.{}", name, i)] = first_[i];
      state[fmt::format("{}.second.{}", name, i)] = second_[i];
    }
    state[name + ".steps"] = at::tensor({steps_}, at::kLong);
  }
  template <class Find>
  void restore(const std::string& name, Find&& find) {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      first_[i].copy_(find(fmt::format("{}.first.{}", name, i)));
      second_[i].copy_(find(fmt::format("{}.second.{}", name, i)));
    }
    steps_ = find(name + ".steps").template item<int64_t>();
  }

 private:
  std::vector<Tensor> parameters_, first_, second_;
  double beta1_, beta2_;
  int64_t steps_ = 0;
};

}  // namespace hastings
