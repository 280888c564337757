#include "hastings/target/target.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>

#include "checked.h"
#include "hastings/core/error.h"

namespace hastings {
namespace {

class CallableTarget final : public Target {
 public:
  CallableTarget(std::string name, int64_t dim, std::function<Tensor(const Tensor&)> log_prob,
                 std::function<Gradient(const Tensor&)> with_gradient)
      : name_(std::move(name)), dim_(dim), log_prob_(std::move(log_prob)), with_gradient_(std::move(with_gradient)) {}
  std::string name() const override { return name_; }
  int64_t dim() const override { return dim_; }
  Tensor log_prob(const Tensor& x) const override { return checked_log_prob(name_, x, log_prob_(x)); }
  Gradient with_gradient(const Tensor& x) const override {
    if (!with_gradient_) return Target::with_gradient(x);
    Gradient g = with_gradient_(x.detach());
    if (g.gradient.sizes() != x.sizes())
      throw ConfigError(fmt::format("target {}: the gradient of a [{}, {}] batch has shape {}", name_, x.size(0),
                                    x.size(1), shape_of(g.gradient)));
    return {checked_log_prob(name_, x, g.log_prob), g.gradient.to(at::kDouble)};
  }

 private:
  std::string name_;
  int64_t dim_;
  std::function<Tensor(const Tensor&)> log_prob_;
  std::function<Gradient(const Tensor&)> with_gradient_;
};

}  // namespace

std::string shape_of(const Tensor& t) {
  return t.defined() ? fmt::format("[{}]", fmt::join(t.sizes().begin(), t.sizes().end(), ", ")) : "none";
}

Tensor checked_log_prob(const std::string& name, const Tensor& x, const Tensor& value) {
  if (!value.defined() || value.dim() != 1 || value.size(0) != x.size(0)) {
    throw ConfigError(fmt::format("target {}: log_prob of a [{}, {}] batch must have shape [{}], has {}", name,
                                  x.size(0), x.size(1), x.size(0), shape_of(value)));
  }
  return value.to(at::kDouble);
}

std::vector<std::string> Target::parameter_names() const {
  std::vector<std::string> names;
  for (int64_t i = 1; i <= dim(); ++i) names.push_back(fmt::format("x.{}", i));
  return names;
}

Gradient Target::with_gradient(const Tensor& x) const {
  const at::AutoGradMode with_grad(true);
  const Tensor leaf = x.detach().requires_grad_(true);
  const Tensor value = log_prob(leaf);
  if (!value.requires_grad())  // constant in x
    return {value.detach(), at::zeros_like(leaf)};
  Tensor gradient = torch::autograd::grad({value.sum()}, {leaf}, {}, c10::nullopt, false, true)[0];
  return {value.detach(), gradient.defined() ? gradient : at::zeros_like(leaf)};
}

Tensor Target::exact_draws(int64_t, Stream&) const {
  throw ConfigError(fmt::format("target {} has no exact sampler", name()));
}

Tensor Target::region_of(const Tensor&) const {
  throw ConfigError(fmt::format("target {} has no regions of known weight", name()));
}

std::unique_ptr<Target> make_target(std::string name, int64_t dim, std::function<Tensor(const Tensor&)> log_prob,
                                    std::function<Gradient(const Tensor&)> with_gradient) {
  if (dim < 1) throw ConfigError(fmt::format("target {}: dim is {}, must be at least 1", name, dim));
  return std::make_unique<CallableTarget>(std::move(name), dim, std::move(log_prob), std::move(with_gradient));
}

void check_repeats(const Target& target, const Tensor& x) {
  constexpr double kRounding = 1e-9;  // sums over threads
  const at::NoGradGuard no_grad;
  const Tensor first = target.log_prob(x), second = target.log_prob(x);
  const Tensor finite = at::isfinite(first) | at::isfinite(second);
  const Tensor apart = ((first - second).abs() / (1 + first.abs())).nan_to_num(1, 1, 1);
  const Tensor worst = (apart * finite).max();
  if (worst.item<double>() < kRounding) return;
  const int64_t i = (apart * finite).argmax().item<int64_t>();
  throw NumericalError(
      fmt::format("target {}: the same point has the log density {} the first time and {} the second: it is not a "
                  "function, and cannot be sampled",
                  target.name(), first[i].item<double>(), second[i].item<double>()));
}

}  // namespace hastings
