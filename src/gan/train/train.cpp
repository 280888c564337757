#include "hastings/gan/train/train.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "../../core/tensor_adam.h"
#include "hastings/core/error.h"

namespace hastings {
void GanTrainOptions::validate() const {
  auto wrong = [](const std::string& text) { throw ConfigError(text); };
  if (batch < 2) wrong(fmt::format("batch {}: must be at least 2", batch));
  if (iterations < 0) wrong(fmt::format("iterations {}: must not be negative", iterations));
  if (iterations == 0 && !(epochs > 0 && epochs <= 1e9))
    wrong(fmt::format("epochs {}: must be positive, 1e9 at the most", epochs));
  if (!(learning_rate >= 0)) wrong(fmt::format("learning rate {}: must not be negative", learning_rate));
  if (critic_steps < 0) wrong(fmt::format("critic steps {}: must not be negative", critic_steps));
  if (!(gradient_penalty >= 0)) wrong(fmt::format("gradient penalty {}: must not be negative", gradient_penalty));
}

struct GanTrainer::Impl {
  Impl(Pair& p, Tensor data, const GanTrainOptions& o)
      : pair(p),
        pixels(std::move(data)),
        options(o),
        entry(entry_of(o.loss)),
        loss(entry.make()),
        rate(o.learning_rate > 0 ? o.learning_rate : entry.learning_rate),
        critic_steps(o.critic_steps > 0 ? o.critic_steps : entry.critic_steps),
        generator(p.generator->parameters(), entry.beta1, entry.beta2),
        discriminator(p.discriminator->parameters(), entry.beta1, entry.beta2) {
    const auto per_epoch = std::max<int64_t>(1, pixels.size(0) / (options.batch * critic_steps));
    iterations = options.iterations > 0
                     ? options.iterations
                     : std::max<int64_t>(1, static_cast<int64_t>(options.epochs * static_cast<double>(per_epoch)));
  }

  // Batch number k of an endless run through the images, shuffled anew each time.
  Tensor real_batch(int64_t k) {
    const int64_t batches = std::max<int64_t>(1, pixels.size(0) / options.batch), epoch = k / batches;
    if (epoch != order_epoch) {
      order = Stream(options.seed, Phase::kGanShuffle, static_cast<uint64_t>(epoch), Purpose::kBatch)
                  .permutation(pixels.size(0));
      order_epoch = epoch;
    }
    const int64_t from = k % batches * options.batch, count = std::min(options.batch, pixels.size(0) - from);
    return to_network_range(pixels.index_select(0, order.narrow(0, from, count)));
  }

  Tensor fakes(Stream& latents, int64_t n) const { return pair.generate(pair.latent.draw(latents, n)); }

  double discriminator_step(int64_t k, Stream& latents) {
    const Tensor real = real_batch(k);
    Tensor fake;
    {
      const at::NoGradGuard no_grad;
      fake = fakes(latents, real.size(0));
    }
    const DiscriminatorBatch batch{
        pair, real, fake, pair.logits(real), pair.logits(fake), latents, options.gradient_penalty};
    const Tensor value = loss->discriminator(batch);
    discriminator.step(torch::autograd::grad({value}, pair.discriminator->parameters()), rate);
    states = batch.on_real.detach().to(at::kDouble);
    return value.item<double>();
  }

  double generator_step(Stream& latents, double& acceptance) {
    const GeneratorLoss step = loss->generator(pair.logits(fakes(latents, options.batch)), states);
    generator.step(torch::autograd::grad({step.loss}, pair.generator->parameters()), rate);
    acceptance = step.acceptance;
    return step.value;
  }

  Pair& pair;
  Tensor pixels;
  GanTrainOptions options;
  const LossEntry& entry;
  std::unique_ptr<GanLoss> loss;
  double rate;
  int64_t critic_steps;
  int64_t iteration = 0, iterations = 0;
  TensorAdam generator, discriminator;
  Tensor order, states;  // the present shuffle; logits of the last real batch
  int64_t order_epoch = -1;
};

GanTrainer::GanTrainer(Pair& pair, Tensor pixels, const GanTrainOptions& options) {
  options.validate();
  if (pixels.size(0) < options.batch)
    throw DataError(fmt::format("{} training images are fewer than a batch of {}", pixels.size(0), options.batch));
  impl_ = std::make_unique<Impl>(pair, std::move(pixels), options);
}
GanTrainer::~GanTrainer() = default;

int64_t GanTrainer::iteration() const { return impl_->iteration; }
int64_t GanTrainer::iterations() const { return impl_->iterations; }

GanProgress GanTrainer::step(Observer* observer) {
  Impl& t = *impl_;
  const at::AutoGradMode with_grad(true);
  // Streams by iteration: to go on, nothing but its number is needed.
  const Streams streams{t.options.seed, Phase::kGanTrain, static_cast<uint64_t>(t.iteration)};
  Stream latents = streams(Purpose::kProposal), dropout = streams(Purpose::kChoice);
  t.pair.generator->train(true, &dropout);
  t.pair.discriminator->train(true, &dropout);
  GanProgress p;
  for (int64_t k = 0; k < t.critic_steps; ++k) {
    p.discriminator_loss = t.discriminator_step(t.iteration * t.critic_steps + k, latents);
    if (observer == nullptr || !observer->should_stop()) continue;
    t.pair.generator->train(false);
    t.pair.discriminator->train(false);
    throw Interrupted("stopped in the middle of a step");
  }
  p.generator_loss = t.generator_step(latents, p.acceptance);
  t.pair.generator->train(false);
  t.pair.discriminator->train(false);
  if (!std::isfinite(p.discriminator_loss) || !std::isfinite(p.generator_loss))
    throw NumericalError(
        fmt::format("training broke down at iteration {} (loss of the discriminator {}, of the generator {}); "
                    "try a smaller --learning-rate",
                    t.iteration, p.discriminator_loss, p.generator_loss));
  p.iteration = ++t.iteration;
  p.iterations = t.iterations;
  return p;
}

Weights GanTrainer::state() const {
  Weights state;
  for (const auto& [name, value] : impl_->pair.generator->weights()) state["generator." + name] = value;
  for (const auto& [name, value] : impl_->pair.discriminator->weights()) state["discriminator." + name] = value;
  impl_->generator.save("adam.generator", state);
  impl_->discriminator.save("adam.discriminator", state);
  state["iteration"] = at::tensor({impl_->iteration}, at::kLong);
  return state;
}

void GanTrainer::restore(const Weights& state, const std::string& file) {
  auto find = [&](const std::string& name) -> const Tensor& {
    const auto found = state.find(name);
    if (found == state.end()) throw DataError(fmt::format("{}: has no '{}'", file, name));
    return found->second;
  };
  const at::NoGradGuard no_grad;
  for (auto [prefix, network] :
       {std::pair{"generator.", impl_->pair.generator.get()}, {"discriminator.", impl_->pair.discriminator.get()}}) {
    Weights own;
    for (const auto& [name, value] : state) {
      if (name.starts_with(prefix)) own[name.substr(std::string(prefix).size())] = value;
    }
    network->load(own, file);
  }
  impl_->generator.restore("adam.generator", find);
  impl_->discriminator.restore("adam.discriminator", find);
  impl_->iteration = find("iteration").item<int64_t>();
}

}  // namespace hastings
