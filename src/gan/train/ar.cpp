// ar: the acceptance rate itself, -E min(1, e^r). It has no gradient where the discriminator is sure (appendix B.2).
#include "losses.h"

namespace hastings {
namespace {

class ArLoss final : public CrossEntropyLoss {
  GeneratorLoss generator(const Tensor& logits, const Tensor& real) const override {
    return by_objective(Objective::kAr, logits, real);
  }
};

}  // namespace

std::unique_ptr<GanLoss> make_ar_loss() { return std::make_unique<ArLoss>(); }

}  // namespace hastings
