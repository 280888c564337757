#include "hastings/target/target.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include "hastings/core/error.h"

namespace hastings {
namespace {

class CallableTarget final : public Target {
 public:
  CallableTarget(std::string name, int64_t dim, std::function<Tensor(const Tensor&)> log_prob)
      : name_(std::move(name)), dim_(dim), log_prob_(std::move(log_prob)) {}
  std::string name() const override { return name_; }
  int64_t dim() const override { return dim_; }
  Tensor log_prob(const Tensor& x) const override {
    Tensor value = log_prob_(x);
    if (value.dim() != 1 || value.size(0) != x.size(0)) {
      throw ConfigError(fmt::format("target {}: log_prob of a [{}, {}] batch must have shape [{}]", name_, x.size(0),
                                    x.size(1), x.size(0)));
    }
    return value.to(at::kDouble);
  }

 private:
  std::string name_;
  int64_t dim_;
  std::function<Tensor(const Tensor&)> log_prob_;
};

}  // namespace

std::vector<std::string> Target::parameter_names() const {
  std::vector<std::string> names;
  for (int64_t i = 1; i <= dim(); ++i) names.push_back(fmt::format("x.{}", i));
  return names;
}

Tensor Target::exact_draws(int64_t, Stream&) const {
  throw ConfigError(fmt::format("target {} has no exact sampler", name()));
}

Tensor Target::region_of(const Tensor&) const {
  throw ConfigError(fmt::format("target {} has no regions of known weight", name()));
}

Gradient log_prob_and_gradient(const Target& target, const Tensor& x) {
  const at::AutoGradMode with_grad(true);
  const Tensor leaf = x.detach().requires_grad_(true);
  const Tensor value = target.log_prob(leaf);
  const Tensor gradient = torch::autograd::grad({value.sum()}, {leaf})[0];
  return {value.detach(), gradient};
}

std::unique_ptr<Target> make_target(std::string name, int64_t dim, std::function<Tensor(const Tensor&)> log_prob) {
  if (dim < 1) throw ConfigError(fmt::format("target {}: dim is {}, must be at least 1", name, dim));
  return std::make_unique<CallableTarget>(std::move(name), dim, std::move(log_prob));
}

}  // namespace hastings
