// The contract of every kernel: chains started at exact draws still have the exact distribution after some steps.
#pragma once

#include <functional>

#include "hastings/baseline/learned_kernels.h"
#include "hastings/chain/kernel.h"
#include "hastings/target/target.h"
#include "support.h"

namespace hastings::test {

inline constexpr int64_t kChains = 20000;
inline constexpr int kSteps = 6;
// Three to nine figures a test, about 130 in all: |z| < 4.5 has a false-alarm rate below 1e-3 over all of them.
inline constexpr double kLimit = 4.5;

// The largest z of first and second moments (of a bounded cos too, which sees the shape) against fresh exact
// draws.
inline double departure(const Target& target, const Tensor& x) {
  Stream random(99, Phase::kTest, 0, Purpose::kExact);
  const Tensor exact = target.exact_draws(kChains * 4, random);
  double worst = 0;
  auto compare = [&](const std::function<Tensor(const Tensor&)>& f) {
    const Tensor a = f(x), b = f(exact);
    const Tensor error =
        (a.var(0, true) / static_cast<double>(a.size(0)) + b.var(0, true) / static_cast<double>(b.size(0))).sqrt();
    worst = std::max(worst, ((a.mean(0) - b.mean(0)).abs() / error).max().item<double>());
  };
  compare([](const Tensor& t) { return t; });
  compare([](const Tensor& t) { return t.square(); });
  compare([](const Tensor& t) { return (t * 1.3).cos(); });
  return worst;
}

inline Tensor run(const Target& target, const Kernel& kernel, uint64_t seed = 1) {
  const at::NoGradGuard no_grad;
  Stream random(seed, Phase::kTest, 0, Purpose::kExact), noise(seed, Phase::kTest, 0, Purpose::kLocal),
      uniforms(seed, Phase::kTest, 0, Purpose::kLocalAccept);
  State state = kernel.init(target.exact_draws(kChains, random));
  double moved = 0;
  for (int i = 0; i < kSteps; ++i)
    moved += kernel.step(state, {noise, uniforms}).accepted.to(at::kDouble).mean().item<double>();
  EXPECT_GT(moved / kSteps, 0.02);  // a kernel that never moves would pass everything
  return state.x;
}

}  // namespace hastings::test
