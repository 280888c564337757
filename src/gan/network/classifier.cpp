#include "hastings/gan/network/classifier.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "../../core/tensor_adam.h"
#include "hastings/core/error.h"
#include "hastings/core/parallel.h"

namespace hastings {
namespace {

using nlohmann::json;

constexpr int64_t kMostClasses = 1000;

// Convolutions that halve the image down to 4 to 7 pixels, one more, and the mean over what is left. `name` stands
// before the names of the weights.
json feature_layers(const Tensor& pixels, int64_t width, const std::string& name) {
  json out = json::array();
  int64_t channels = width;
  auto stage = [&](int64_t kernel, int64_t stride) {
    const size_t number = out.size();
    out.push_back({{"type", "conv"},
                   {"out", channels},
                   {"kernel", kernel},
                   {"stride", stride},
                   {"padding", 1},
                   {"bias", false},
                   {"name", fmt::format("{}.{}", name, number)}});
    out.push_back({{"type", "batch_norm"}, {"name", fmt::format("{}.{}", name, number + 1)}});
    out.push_back({{"type", "relu"}});
  };
  for (int64_t size = std::min(pixels.size(2), pixels.size(3)); size >= 8; size /= 2) {
    stage(4, 2);
    channels = std::min(2 * channels, 4 * width);
  }
  channels = 2 * width;
  stage(3, 1);
  out.push_back({{"type", "global_mean"}});
  return out;
}

// Moved by up to a sixteenth of their size, and where they have colours (photographs) each mirrored or not: a network
// that was shown no image twice keeps its judgement on images of another kind, the generator's.
Tensor varied(const Tensor& images, Stream& stream) {
  const int64_t n = images.size(0), height = images.size(2), width = images.size(3);
  const int64_t reach = std::min(height, width) / 16;
  const auto u = stream.uniform({2});
  auto offset = [&](int64_t i) {
    return static_cast<int64_t>(u[i].item<double>() * static_cast<double>(2 * reach + 1));
  };
  Tensor out = images;
  if (reach > 0)
    out = at::reflection_pad2d(out, {reach, reach, reach, reach})
              .narrow(2, offset(0), height)
              .narrow(3, offset(1), width);
  if (images.size(1) == 3) out = at::where(stream.uniform({n, 1, 1, 1}) < 0.5, out, out.flip(3));
  return out.contiguous();
}

}  // namespace

void ClassifierOptions::validate() const {
  if (members < 1 || steps < 1 || batch < 2 || width < 1 || !(learning_rate > 0))
    throw ConfigError("classifiers: members, steps, batch (2 at least), width and learning rate must be positive");
}

FeatureNetwork learn_classifiers(const Tensor& pixels, const Tensor& labels, const ClassifierOptions& o,
                                 Observer& observer) {
  o.validate();
  const int64_t n = pixels.size(0);
  if (labels.size(0) != n) throw DataError("classifier: every image needs a label");
  const auto [names, class_of] = at::_unique(labels, /*sorted=*/true, /*return_inverse=*/true);
  const int64_t classes = names.size(0);
  if (classes < 2 || classes > kMostClasses)
    throw DataError(
        fmt::format("the images have {} different labels; a classifier wants 2 to {}", classes, kMostClasses));
  const json normalise = {{"type", "normalise"}, {"mean", {0.5}}, {"std", {0.5}}};
  const json input = {pixels.size(1), pixels.size(2), pixels.size(3)};
  const auto begin = std::chrono::steady_clock::now();
  std::vector<json> branches(static_cast<size_t>(o.members));
  std::vector<Weights> weights(static_cast<size_t>(o.members));
  std::atomic<int64_t> steps = 0;
  parallel_tasks(o.members, resolve_threads(o.threads), [&](int64_t member) {
    const auto number = static_cast<size_t>(member);
    branches[number] = feature_layers(pixels, o.width, fmt::format("member{}", member));
    json layers = branches[number];
    layers.insert(layers.begin(), normalise);
    layers.push_back({{"type", "linear"}, {"out", classes}, {"name", "last"}});
    const Streams streams{o.seed, Phase::kClassifier, static_cast<uint64_t>(member)};
    Stream init = streams(Purpose::kWeights), stream = streams(Purpose::kBatch);
    const auto network = build_network({{"input", input}, {"init", "fan-in"}, {"layers", layers}}, &init);
    TensorAdam adam(network->parameters(), 0.9, 0.999);
    const at::AutoGradMode with_grad(true);
    network->train(true);
    for (int64_t k = 0; k < o.steps; ++k) {
      if (observer.should_stop()) throw Interrupted("interrupted while classifiers were learned");
      const Tensor rows = (stream.uniform({o.batch}) * static_cast<double>(n)).to(at::kLong).clamp_max(n - 1);
      const Tensor truth = class_of.index_select(0, rows);
      const Tensor score = network->forward(varied(pixels.index_select(0, rows).to(at::kFloat).div_(255), stream));
      const Tensor loss = -at::log_softmax(score, 1).gather(1, truth.unsqueeze(1)).mean();
      // The rate falls to nothing over the second half.
      const double left = 2 * static_cast<double>(o.steps - k) / static_cast<double>(o.steps);
      adam.step(torch::autograd::grad({loss}, network->parameters()), o.learning_rate * std::min(1.0, left));
      LearnProgress p;
      p.phase = "classifiers of the labels";
      p.iteration = ++steps;
      p.max_iterations = o.members * o.steps;
      p.acceptance = std::nan("");
      p.loss = loss.item<double>();
      if (!std::isfinite(p.loss)) throw NumericalError("a classifier of the labels broke down");
      p.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      observer.on_learn(p);
    }
    weights[number] = network->weights();
  });
  Weights all;
  for (auto& own : weights) all.merge(own);
  const json description = {{"name", fmt::format("{} classifiers of its {} labels", o.members, classes)},
                            {"input", input},
                            {"layers", {normalise, {{"type", "branches"}, {"branches", branches}}}}};
  return {description.dump(), all};
}

}  // namespace hastings
