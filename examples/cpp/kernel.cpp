// A kernel of your own: it proposes, the exact decision decides, and the loop is that of every kernel.
#include <ATen/ATen.h>
#include <hastings/hastings.h>

#include <cstdio>

namespace {

// x' = a x + sqrt(1 - a^2) z: with N(0, I) as its own law, so that only the likelihood decides (preconditioned
// Crank-Nicolson).
class CrankNicolson final : public hastings::Kernel {
 public:
  CrankNicolson(hastings::Density density, double keep)
      : Kernel(hastings::decide_exactly(std::move(density))), keep_(keep) {}
  hastings::Move propose(const hastings::State& state, const hastings::ChainStreams& streams) const override {
    const at::Tensor z = streams.noise.normal(state.x.size(0), state.x.size(1));
    const at::Tensor x = keep_ * state.x + std::sqrt(1 - keep_ * keep_) * z;
    // log q(x' | x) - log q(x | x') = log N(x') - log N(x).
    return {x, {}, -0.5 * x.square().sum(-1), -0.5 * state.x.square().sum(-1)};
  }

 private:
  double keep_;
};

}  // namespace

int main() {
  const auto target = hastings::make_target(
      "shifted", 3, [](const at::Tensor& x) { return -0.5 * (x - 1).square().sum(-1) - 0.5 * x.square().sum(-1); });
  const CrankNicolson kernel(hastings::density_of(*target), 0.8);
  const hastings::Streams streams{1, hastings::Phase::kTest};
  hastings::Stream noise = streams(hastings::Purpose::kLocal), accept = streams(hastings::Purpose::kLocalAccept);
  hastings::State chains = kernel.init(noise.normal({1000, 3}));
  for (int i = 0; i < 200; ++i) kernel.step(chains, {noise, accept});
  const double mean = chains.x.mean().item<double>();
  std::printf("mean %.2f (exactly 0.5)\n", mean);
  return std::abs(mean - 0.5) < 0.1 ? 0 : 1;
}
