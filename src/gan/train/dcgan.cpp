// dcgan: the non-saturating loss -E log d(fake), Goodfellow's rule of thumb.
#include <ATen/ATen.h>

#include "losses.h"

namespace hastings {
namespace {

class DcganLoss final : public CrossEntropyLoss {
  GeneratorLoss generator(const Tensor& logits, const Tensor& real) const override {
    const Tensor loss = at::softplus(-logits).mean();
    const double acceptance = evaluate(Objective::kArlb, logits.detach().to(at::kDouble), real).acceptance;
    return {loss, loss.item<double>(), acceptance};
  }
};

}  // namespace

std::unique_ptr<GanLoss> make_dcgan_loss() { return std::make_unique<DcganLoss>(); }

}  // namespace hastings
