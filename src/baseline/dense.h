// Small networks for the baselines, recorded by LibTorch's autograd.
#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>
#include <vector>

#include "../core/clock.h"
#include "../core/tensor_adam.h"
#include "hastings/core/events.h"
#include "hastings/core/random.h"

namespace hastings::baseline {

// Leaves of the graph, in the order they were made.
class Leaves {
 public:
  Leaves(const Streams& streams, at::ScalarType type) : stream_(streams(Purpose::kWeights)), type_(type) {}
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

// One step down the gradient, which is bounded. Where it is not finite nothing moves, and false comes back.
inline bool descend(TensorAdam& adam, std::vector<Tensor> gradients, double rate) {
  constexpr double kLongest = 100;
  const at::NoGradGuard no_grad;
  double square = 0;
  for (const auto& g : gradients) {
    if (g.defined()) square += g.square().sum().item<double>();
  }
  if (!std::isfinite(square)) return false;
  const double length = std::sqrt(square);
  for (auto& g : gradients) {
    if (g.defined() && length > kLongest) g = g * (kLongest / length);
  }
  adam.step(gradients, rate);
  return true;
}
inline bool descend(TensorAdam& adam, const Tensor& loss, double rate) {
  return descend(adam, torch::autograd::grad({loss}, adam.parameters(), {}, {}, false, /*allow_unused=*/true), rate);
}

// Learning of the rivals goes up and down: what is kept are the parameters that were offered with the highest score.
class Best {
 public:
  explicit Best(std::vector<Tensor> parameters) : parameters_(std::move(parameters)) {}
  void offer(double score) {
    if (!(score > score_)) return;
    score_ = score;
    kept_.clear();
    for (const auto& p : parameters_) kept_.push_back(p.detach().clone());
  }
  void restore() const {  // nothing, if nothing was offered
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < kept_.size(); ++i) parameters_[i].copy_(kept_[i]);
  }

 private:
  std::vector<Tensor> parameters_, kept_;
  double score_ = -std::numeric_limits<double>::infinity();
};

inline void tell_progress(const char* phase, int64_t iteration, int64_t of, double loss, double acceptance,
                          double seconds, Observer& observer) {
  LearnProgress row;
  row.phase = phase;
  row.iteration = iteration;
  row.max_iterations = of;
  row.loss = loss;
  row.acceptance = acceptance;
  row.seconds = seconds;
  observer.on_learn(row);
}

inline void tell_skipped(const char* who, int64_t skipped, int64_t steps, Observer& observer) {
  if (skipped > 0)
    observer.on_warning(fmt::format("{}: {} of {} steps left out, their gradient was not finite", who, skipped, steps));
}

}  // namespace hastings::baseline
