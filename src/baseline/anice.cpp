// A-NICE-MC. The network f adds to v a function of x, to x a function of v, and to v again: it preserves volume and is
// undone exactly. A transition draws v ~ N(0, I), goes forwards or backwards with probability 1/2 each and accepts with
// p(x') N(v') / p(x) N(v).
#include "dense.h"
#include "hastings/baseline/learned_kernels.h"
#include "hastings/core/error.h"

namespace hastings {
namespace {

using baseline::Dense;
using baseline::descend;
using baseline::Leaves;

class Nice {
 public:
  Nice(int64_t dim, const AniceOptions& options) : leaves_(options.seed, at::kFloat) {
    for (size_t k = 0; k < options.hidden.size(); ++k) {
      couplings_.emplace_back(leaves_, moves_x(k) ? options.velocity : dim, options.hidden[k],
                              moves_x(k) ? dim : options.velocity, 0.1);
    }
  }
  void forward(Tensor& x, Tensor& v) const {
    for (size_t k = 0; k < couplings_.size(); ++k) {
      Tensor& moved = moves_x(k) ? x : v;
      moved = moved + shift(k, moves_x(k) ? v : x);
    }
  }
  void backward(Tensor& x, Tensor& v) const {
    for (size_t k = couplings_.size(); k-- > 0;) {
      Tensor& moved = moves_x(k) ? x : v;
      moved = moved - shift(k, moves_x(k) ? v : x);
    }
  }
  // Every row its own direction: `ahead` [n].
  void either(Tensor& x, Tensor& v, const Tensor& ahead) const {
    const Tensor there = ahead.nonzero().squeeze(1), back = at::logical_not(ahead).nonzero().squeeze(1);
    Tensor fx = x.index_select(0, there), fv = v.index_select(0, there), bx = x.index_select(0, back),
           bv = v.index_select(0, back);
    forward(fx, fv);
    backward(bx, bv);
    x = x.index_copy(0, there, fx).index_copy(0, back, bx);
    v = v.index_copy(0, there, fv).index_copy(0, back, bv);
  }
  const std::vector<Tensor>& parameters() const { return leaves_.all(); }

 private:
  static bool moves_x(size_t k) { return k % 2 == 1; }
  Tensor shift(size_t k, const Tensor& from) const { return couplings_[k](from.to(at::kFloat)).to(from.scalar_type()); }
  Leaves leaves_;
  std::vector<Dense> couplings_;
};

class Anice final : public LocalKernel {
 public:
  Anice(std::shared_ptr<const Nice> nice, int64_t velocity) : nice_(std::move(nice)), velocity_(velocity) {}
  LocalInfo step(LocalState& state, const Density& density, RowStreams noise, RowStreams uniforms) const override {
    const at::NoGradGuard no_grad;
    const int64_t n = state.x.size(0);
    const Tensor start = noise.normal(n, velocity_);
    Tensor x = state.x, v = start;
    nice_->either(x, v, at::lt(uniforms.uniform(n), 0.5));
    return metropolis_step(state, x, density(x, false), start.square().sum(-1) * -0.5, v.square().sum(-1) * -0.5,
                           uniforms.uniform(n));
  }

 private:
  std::shared_ptr<const Nice> nice_;
  int64_t velocity_;
};

Tensor gradient_penalty(const Dense& critic, const Tensor& real, const Tensor& fake, Stream& stream) {
  const Tensor share = stream.uniform({real.size(0), 1}).to(at::kFloat);
  const Tensor between = (share * real + (1 - share) * fake.detach()).requires_grad_(true);
  const Tensor slope = torch::autograd::grad({critic(between).sum()}, {between}, {}, true, /*create_graph=*/true)[0];
  return (slope.square().sum(1).add(1e-12).sqrt() - 1).square().mean();
}

}  // namespace

std::unique_ptr<LocalKernel> learn_anice(const Target& target, const AniceOptions& options, Observer& observer) {
  const at::AutoGradMode with_grad(true);
  const int64_t d = target.dim(), n = options.batch;
  const auto nice = std::make_shared<Nice>(d, options);
  Leaves critic_leaves(options.seed + 1, at::kFloat);
  const Dense critic(critic_leaves, 2 * d, options.critic, 1, 1.0);
  TensorAdam generator_adam(nice->parameters(), 0.5, 0.9), critic_adam(critic_leaves.all(), 0.5, 0.9);
  Stream start(options.seed, 0, Purpose::kStart), noise(options.seed, 0, Purpose::kLocal),
      uniforms(options.seed, 1, Purpose::kLocal), rows(options.seed, 0, Purpose::kBatch);
  const Density density = density_of(target);

  // Bootstrapped draws: the second half of chains run with the accept step; the first time by HMC.
  Tensor pool;
  auto bootstrap = [&](const LocalKernel& kernel) {
    const at::NoGradGuard no_grad;
    LocalState state = kernel.init(start.normal({options.bootstrap_chains, d}) * target.scale(), density);
    std::vector<Tensor> kept;
    for (int64_t t = 0; t < options.bootstrap_steps; ++t) {
      kernel.step(state, density, noise, uniforms);
      if (t >= options.bootstrap_steps / 2) kept.push_back(state.x);
    }
    pool = at::cat(kept, 0).to(at::kFloat);
  };
  HmcOptions hmc;
  hmc.seed = options.seed;
  bootstrap(*tune_hmc(target, hmc, observer).kernel);
  const Anice kernel(nice, options.velocity);

  auto real = [&] { return pool.index_select(0, rows.integers(n, pool.size(0))); };
  // Up to `most` steps of f, without the accept step; what the last of them makes of v is kept.
  std::vector<Tensor> velocities;
  auto walk = [&](Tensor x, int64_t most) {
    Tensor v;
    for (int64_t t = rows.integers(1, most).item<int64_t>(); t >= 0; --t) {
      v = noise.normal({n, options.velocity}).to(at::kFloat);
      nice->forward(x, v);
    }
    velocities.push_back(v);
    return x;
  };
  // Pairs of independent draws against pairs that the chain joins: from noise, and from a draw.
  auto fake_pairs = [&] {
    velocities.clear();
    const Tensor far = walk(start.normal({n, d}).to(at::kFloat), options.from_noise), near = real();
    return at::cat(
        {at::cat({far, walk(far.detach(), options.between)}, 1), at::cat({near, walk(near, options.between)}, 1)}, 0);
  };
  auto real_pairs = [&] {
    const Tensor a = at::cat({real(), real()}, 0), b = at::cat({real(), real()}, 0);
    return at::cat({a, b}, 1);
  };
  double critic_loss = 0;
  int64_t skipped = 0;
  for (int64_t t = 0; t < options.iterations; ++t) {
    if (observer.should_stop()) throw Interrupted("stopped while learning A-NICE-MC");
    if (t > 0 && t % options.bootstrap_every == 0) bootstrap(kernel);
    for (int64_t k = 0; k < options.critic_steps; ++k) {
      Tensor fake;
      {
        const at::NoGradGuard no_grad;
        fake = fake_pairs();
      }
      const Tensor truth = real_pairs(), scores = critic(at::cat({fake, truth}, 0));
      const Tensor loss = scores.narrow(0, 0, 2 * n).mean() - scores.narrow(0, 2 * n, 2 * n).mean() +
                          options.penalty * gradient_penalty(critic, truth, fake, uniforms);
      skipped += !descend(critic_adam, loss, options.learning_rate);
      critic_loss = loss.item<double>();
    }
    // The pairs deceive the critic; v stays likely under N(0, I), or nothing would be accepted.
    const Tensor deceived = -critic(fake_pairs()).mean(), unlikely = 0.5 * at::cat(velocities, 0).square().mean();
    skipped += !descend(generator_adam, deceived + options.velocity_weight * unlikely, options.learning_rate);
    if ((t + 1) % 50 == 0) {
      LearnProgress row;
      row.phase = "a-nice-mc";
      row.iteration = t + 1;
      row.max_iterations = options.iterations;
      row.loss = critic_loss;
      observer.on_learn(row);
    }
  }
  baseline::tell_skipped("A-NICE-MC", skipped, options.iterations * (options.critic_steps + 1), observer);
  return std::make_unique<Anice>(nice, options.velocity);
}

}  // namespace hastings
