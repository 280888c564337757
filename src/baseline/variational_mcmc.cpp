#include "hastings/baseline/learned_kernels.h"
#include "hastings/core/moments.h"

namespace hastings {
namespace {

class VariationalMcmc final : public LocalKernel {
 public:
  VariationalMcmc(std::unique_ptr<Proposal> proposal, double share, const Tensor& factor, double step)
      : proposal_(std::move(proposal)), mixture_(make_random_walk_mixture(draws_of(*proposal_), share, factor, step)) {}
  LocalInfo step(LocalState& state, const Density& density, RowStreams noise, RowStreams uniforms) const override {
    return mixture_->step(state, density, noise, uniforms);
  }

 private:
  std::unique_ptr<Proposal> proposal_;
  std::unique_ptr<LocalKernel> mixture_;
};

}  // namespace

std::unique_ptr<LocalKernel> learn_variational_mcmc(const Target& target, const VariationalMcmcOptions& options,
                                                    Observer& observer) {
  FitOptions how;
  how.flow = options.flow;
  how.learn = options.learn;
  how.learn.objective = "vi";
  how.start.method = "none";  // variational inference knows no population
  how.start.seed = how.learn.seed = options.seed;
  Fit learned = fit(target, how, observer);
  Stream stream(options.seed, Phase::kVariationalMcmc, 0, Purpose::kProposal);
  const Tensor factor = moments(learned.proposal->sample(2048, stream).x).factor;
  return std::make_unique<VariationalMcmc>(std::move(learned.proposal), options.share, factor, options.step);
}

}  // namespace hastings
