// arlb: the lower bound of the acceptance rate, -E r: a gradient wherever the generator is.
#include "losses.h"

namespace hastings {
namespace {

class ArlbLoss final : public CrossEntropyLoss {
  GeneratorLoss generator(const Tensor& logits, const Tensor& real) const override {
    return by_objective(Objective::kArlb, logits, real);
  }
};

}  // namespace

std::unique_ptr<GanLoss> make_arlb_loss() { return std::make_unique<ArlbLoss>(); }

}  // namespace hastings
