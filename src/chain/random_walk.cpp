#include "hastings/chain/random_walk.h"

#include <ATen/ATen.h>

namespace hastings {
namespace {

class RandomWalk final : public Kernel {
 public:
  RandomWalk(Density density, const Tensor& factor, double step_size)
      : Kernel(decide_exactly(std::move(density))), step_t_((factor * step_size).t().contiguous()) {}
  Move propose(const State& state, const ChainStreams& streams) const override {
    return {state.x + at::matmul(streams.noise.normal(state.x.size(0), state.x.size(1)), step_t_), {}, {}, {}};
  }

 private:
  Tensor step_t_;
};

}  // namespace

std::unique_ptr<Kernel> make_random_walk(Density density, const Tensor& factor, double step_size) {
  return std::make_unique<RandomWalk>(std::move(density), factor, step_size);
}

}  // namespace hastings
