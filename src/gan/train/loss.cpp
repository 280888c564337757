#include "hastings/gan/train/loss.h"

#include <ATen/ATen.h>

#include "hastings/core/registry.h"
#include "losses.h"

namespace hastings {

const std::vector<LossEntry>& gan_losses() {
  static const std::vector<LossEntry> all = {
      {LossKind::kDcgan, "dcgan", "the generator maximises log d of what it makes", 2e-4, 1, 0.5, 0.999,
       make_dcgan_loss},
      {LossKind::kWganGp, "wgan-gp", "critic and gradient penalty", 1e-4, 5, 0.5, 0.9, make_wgan_gp_loss},
      {LossKind::kAr, "ar", "the acceptance rate", 2e-4, 1, 0.5, 0.999, make_ar_loss},
      {LossKind::kArlb, "arlb", "its lower bound", 2e-4, 1, 0.5, 0.999, make_arlb_loss}};
  return all;
}

const LossEntry& entry_of(LossKind kind) { return entry_of(gan_losses(), kind); }

LossKind parse_loss(const std::string& name) { return find_entry(gan_losses(), "loss", name).kind; }

std::string to_string(LossKind kind) { return entry_of(kind).name; }

Tensor CrossEntropyLoss::discriminator(const DiscriminatorBatch& batch) const {
  return at::softplus(-batch.on_real).mean() + at::softplus(batch.on_fake).mean();
}

GeneratorLoss by_objective(Objective objective, const Tensor& logits, const Tensor& real) {
  const ObjectiveValue value = evaluate(objective, logits.detach().to(at::kDouble), real);
  return {(logits * value.grad_candidate.to(at::kFloat)).sum(), value.loss, value.acceptance};
}

}  // namespace hastings
