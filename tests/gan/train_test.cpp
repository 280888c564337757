// Algorithm 2.
#include "hastings/gan/train/train.h"

#include "hastings/core/registry.h"
#include "hastings/gan/network/preset.h"
#include "hastings/core/objectives.h"
#include "support.h"

namespace hastings {
namespace {

// Appendix B.2: where the discriminator is sure, AR has no gradient left and ARLB has all of it.
TEST(Objectives, ArVanishesUnderAConfidentDiscriminatorAndArlbDoesNot) {
  const Tensor real = at::full({64}, 12.0, at::kDouble), sure = at::full({64}, -12.0, at::kDouble),
               unsure = at::full({64}, 11.5, at::kDouble);
  EXPECT_LT(evaluate(Objective::kAr, sure, real).grad_candidate.abs().sum().item<double>(), 1e-9);
  EXPECT_NEAR(evaluate(Objective::kArlb, sure, real).grad_candidate.abs().sum().item<double>(), 1, 1e-12);
  EXPECT_GT(evaluate(Objective::kAr, unsure, real).grad_candidate.abs().sum().item<double>(), 0.5);
}

std::string tiny_pair() { return preset_pair("dcgan", {1, 8, 8}, 4, 6); }

Tensor blobs(int64_t n, uint64_t seed) {
  const Tensor shift = (Stream(seed, Phase::kTest, 0, Purpose::kData).uniform({n, 1, 1, 1}) * 120).to(at::kFloat);
  const Tensor ramp = at::linspace(0, 120, 8).view({1, 1, 1, 8}).expand({n, 1, 8, 8});
  return (ramp + shift).to(at::kByte);
}

TEST(Train, GoesOnBitForBit) {
  const Tensor pixels = blobs(200, 1);
  for (const char* loss : {"dcgan", "ar", "arlb", "wgan-gp"}) {
    GanTrainOptions options;
    options.loss = parse_loss(loss);
    options.batch = 16;
    options.iterations = 8;
    Pair straight = fresh_pair(tiny_pair(), 3);
    GanTrainer a(straight, pixels, options);
    Weights middle;
    for (int i = 0; i < 8; ++i) {
      if (i == 3) {
        for (const auto& [name, value] : a.state()) middle[name] = value.detach().clone();
      }
      a.step();
    }
    Pair resumed = fresh_pair(tiny_pair(), 99);
    GanTrainer b(resumed, pixels, options);
    b.restore(middle, "state");
    EXPECT_EQ(b.iteration(), 3);
    while (b.iteration() < 8) b.step();
    const Weights x = a.state(), y = b.state();
    for (const auto& [name, value] : x) EXPECT_TRUE(value.equal(y.at(name))) << loss << " " << name;
  }
}

TEST(Train, TheDiscriminatorAndTheGeneratorLearn) {
  // The generator starts grey; real images are bright ramps. After some steps of ARLB its mean brightness has moved
  // there.
  const Tensor pixels = (blobs(500, 2).to(at::kInt) / 2 + 130).to(at::kByte);
  GanTrainOptions options;
  options.batch = 32;
  options.iterations = 150;
  options.learning_rate = 2e-3;
  Pair pair = fresh_pair(tiny_pair(), 5);
  const double wanted = to_network_range(pixels).mean().item<double>();
  auto level = [&] {
    const at::NoGradGuard no_grad;
    Stream stream(1, Phase::kTest, 0, Purpose::kData);
    return pair.generate(pair.latent.draw(stream, 200)).mean().item<double>();
  };
  const double before = std::abs(level() - wanted);
  GanTrainer trainer(pair, pixels, options);
  while (trainer.iteration() < trainer.iterations()) trainer.step();
  EXPECT_LT(std::abs(level() - wanted), before / 2);
}

// A loss is asked for by its name; what it wants where the user says nothing is of use.
TEST(Train, EveryLossIsRegistered) {
  const Pair pair = fresh_pair(tiny_pair(), 3);
  const Tensor images = to_network_range(blobs(4, 1));
  Stream noise(1, Phase::kTest, 0, Purpose::kData);
  for (const auto& entry : gan_losses()) {
    EXPECT_EQ(parse_loss(entry.name), entry.kind);
    EXPECT_EQ(to_string(entry.kind), entry.name);
    EXPECT_TRUE(entry.learning_rate > 0 && entry.critic_steps > 0 && entry.beta1 < 1 && entry.beta2 < 1);
    const auto loss = entry.make();
    const Tensor logits = pair.logits(images);
    const Tensor value = loss->discriminator({pair, images, -images, logits, pair.logits(-images), noise, 10});
    EXPECT_TRUE(std::isfinite(value.item<double>())) << entry.name;
    const GeneratorLoss step = loss->generator(logits, logits.detach().to(at::kDouble));
    EXPECT_TRUE(std::isfinite(step.value) && step.loss.requires_grad()) << entry.name;
    EXPECT_EQ(std::isnan(step.acceptance), entry.kind == LossKind::kWganGp);  // a critic's number is no log weight
    EXPECT_NE(help_of(gan_losses()).find(std::string(entry.name) + " (" + entry.help), std::string::npos);
  }
  EXPECT_EQ(test::error_of([] { parse_loss("magic"); }), "loss 'magic': must be dcgan, wgan-gp, ar or arlb");
}

}  // namespace
}  // namespace hastings
