// wgan-gp: critic and gradient penalty (Gulrajani and others 2017). The critic's number is no log weight.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "losses.h"

namespace hastings {
namespace {

class WganGpLoss final : public GanLoss {
  Tensor discriminator(const DiscriminatorBatch& batch) const override {
    return batch.on_fake.mean() - batch.on_real.mean() + batch.gradient_penalty * penalty(batch);
  }
  GeneratorLoss generator(const Tensor& logits, const Tensor&) const override {
    const Tensor loss = -logits.mean();
    return {loss, loss.item<double>(), std::nan("")};
  }

  // E (|grad D| - 1)^2 at points between real and fake images.
  static Tensor penalty(const DiscriminatorBatch& batch) {
    const Tensor mix = batch.noise.uniform({batch.real.size(0), 1, 1, 1}).to(at::kFloat);
    const Tensor between = (mix * batch.real + (1 - mix) * batch.fake).set_requires_grad(true);
    const Tensor out = batch.pair.logits(between).sum();
    const Tensor gradient = torch::autograd::grad({out}, {between}, {}, true, true)[0];
    return (gradient.flatten(1).norm(2, 1) - 1).square().mean();
  }
};

}  // namespace

std::unique_ptr<GanLoss> make_wgan_gp_loss() { return std::make_unique<WganGpLoss>(); }

}  // namespace hastings
