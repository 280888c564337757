#include "hastings/gan/classifier.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "../core/tensor_adam.h"
#include "hastings/core/error.h"
#include "hastings/core/parallel.h"

namespace hastings {
namespace {

using nlohmann::json;

constexpr int64_t kMostClasses = 1000;

json conv(int64_t out, int64_t kernel, int64_t stride) {
  return {{"type", "conv"}, {"out", out}, {"kernel", kernel}, {"stride", stride}, {"padding", 1}, {"bias", false}};
}

// Convolutions that halve the image down to 4 to 7 pixels, one more, and the mean over what is left.
json feature_layers(const Tensor& pixels, int64_t width) {
  json out = json::array({{{"type", "normalise"}, {"mean", {0.5}}, {"std", {0.5}}}});
  int64_t channels = width;
  auto stage = [&](int64_t kernel, int64_t stride) {
    out.push_back(conv(channels, kernel, stride));
    out.push_back({{"type", "batch_norm"}});
    out.push_back({{"type", "relu"}});
  };
  for (int64_t size = std::min(pixels.size(2), pixels.size(3)); size >= 8; size /= 2) {
    stage(4, 2);
    channels = std::min(2 * channels, 4 * width);
  }
  stage(3, 1);
  out.push_back({{"type", "global_mean"}});
  return out;
}

}  // namespace

void ClassifierOptions::validate() const {
  if (steps < 1 || batch < 2 || width < 1 || !(learning_rate > 0))
    throw ConfigError("classifier: steps, batch (2 at least), width and learning rate must be positive");
}

FeatureNetwork learn_classifier(const Tensor& pixels, const Tensor& labels, const ClassifierOptions& o,
                                Observer& observer) {
  o.validate();
  const int64_t n = pixels.size(0);
  if (labels.size(0) != n) throw DataError("classifier: every image needs a label");
  const auto [names, class_of] = at::_unique(labels, /*sorted=*/true, /*return_inverse=*/true);
  const int64_t classes = names.size(0);
  if (classes < 2 || classes > kMostClasses)
    throw DataError(
        fmt::format("the images have {} different labels; a classifier wants 2 to {}", classes, kMostClasses));
  json description = {{"name", fmt::format("a classifier of its {} labels", classes)},
                      {"input", {pixels.size(1), pixels.size(2), pixels.size(3)}},
                      {"init", "fan-in"},
                      {"layers", feature_layers(pixels, o.width)}};
  const json features = description;
  description["layers"].push_back({{"type", "linear"}, {"out", classes}});
  Stream init(o.seed, 0, Purpose::kWeights);
  const auto network = build_network(description, &init);
  TensorAdam adam(network->parameters(), 0.9, 0.999);
  const SingleThreaded one_thread;
  const at::AutoGradMode with_grad(true);
  const auto begin = std::chrono::steady_clock::now();
  network->train(true);
  LearnProgress p;
  p.phase = "classifier of the labels";
  p.max_iterations = o.steps;
  p.acceptance = std::nan("");
  for (int64_t k = 0; k < o.steps; ++k) {
    if (observer.should_stop()) throw Interrupted("interrupted while a classifier was learned");
    Stream stream(o.seed, static_cast<uint64_t>(k) + 1, Purpose::kBatch);
    const Tensor rows = (stream.uniform({o.batch}) * static_cast<double>(n)).to(at::kLong).clamp_max(n - 1);
    const Tensor truth = class_of.index_select(0, rows);
    const Tensor score = network->forward(pixels.index_select(0, rows).to(at::kFloat).div_(255));
    const Tensor loss = -at::log_softmax(score, 1).gather(1, truth.unsqueeze(1)).mean();
    // The rate falls to nothing over the second half.
    const double left = 2 * static_cast<double>(o.steps - k) / static_cast<double>(o.steps);
    adam.step(torch::autograd::grad({loss}, network->parameters()), o.learning_rate * std::min(1.0, left));
    p.iteration = k + 1;
    p.loss = loss.item<double>();
    if (!std::isfinite(p.loss)) throw NumericalError("the classifier of the labels broke down");
    p.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    observer.on_learn(p);
  }
  return {features.dump(), network->weights()};
}

}  // namespace hastings
