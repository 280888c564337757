#include "hastings/baseline/learned_kernels.h"
#include "hastings/chain/mixture.h"
#include "hastings/core/moments.h"

namespace hastings {
namespace {

// The mixture, with the proposal it refers to.
class VariationalMcmc final : public Kernel {
 public:
  VariationalMcmc(const Density& density, std::unique_ptr<Proposal> proposal, double share, const Tensor& factor,
                  double step)
      : Kernel(decide_exactly(density)),
        proposal_(std::move(proposal)),
        mixture_(make_random_walk_mixture(density, *proposal_, share, factor, step)) {}
  Move propose(const State& state, const ChainStreams& streams) const override {
    return mixture_->propose(state, streams);
  }

 private:
  std::unique_ptr<Proposal> proposal_;
  std::unique_ptr<Kernel> mixture_;
};

}  // namespace

std::unique_ptr<Kernel> learn_variational_mcmc(const Target& target, const VariationalMcmcOptions& options,
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
  return std::make_unique<VariationalMcmc>(density_of(target), std::move(learned.proposal), options.share, factor,
                                           options.step);
}

}  // namespace hastings
