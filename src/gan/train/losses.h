// One factory a loss, each in the file of its name, and what several of them share.
#pragma once

#include <memory>

#include "hastings/core/objectives.h"
#include "hastings/gan/train/loss.h"

namespace hastings {

std::unique_ptr<GanLoss> make_dcgan_loss();
std::unique_ptr<GanLoss> make_wgan_gp_loss();
std::unique_ptr<GanLoss> make_ar_loss();
std::unique_ptr<GanLoss> make_arlb_loss();

// The discriminator is a classifier, whose logit is the log weight: -E log d(real) - E log(1 - d(fake)).
class CrossEntropyLoss : public GanLoss {
 public:
  at::Tensor discriminator(const DiscriminatorBatch& batch) const final;
};

// The generator maximises the acceptance rate, or its bound, that the logits imply. The states are real images: it
// moves the candidates only.
GeneratorLoss by_objective(Objective objective, const at::Tensor& logits, const at::Tensor& real);

}  // namespace hastings
