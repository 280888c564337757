// A-NICE-MC. The network f adds to v a function of x, to x a function of v, and to v again: it preserves volume and is
// undone exactly. A transition draws v ~ N(0, I), goes forwards or backwards with probability 1/2 each and accepts with
// p(x') N(v') / p(x) N(v).
#include <chrono>
#include <cmath>

#include "dense.h"
#include "hastings/baseline/critic.h"
#include "hastings/baseline/learned_kernels.h"
#include "hastings/core/error.h"
#include "hastings/core/moments.h"
#include "hastings/diagnose/ess.h"

namespace hastings {
namespace {

using baseline::Dense;
using baseline::descend;
using baseline::Leaves;

class Nice {
 public:
  Nice(int64_t dim, const AniceOptions& options) : leaves_({options.seed, Phase::kAnice}, at::kFloat) {
    for (size_t k = 0; k < options.hidden.size(); ++k) {
      couplings_.emplace_back(leaves_, moves_x(k) ? options.velocity : dim, options.hidden[k],
                              moves_x(k) ? dim : options.velocity, options.heads);
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

// The coordinates the network works in, z = L^-1 (x - shift); without L those of the target.
struct Units {
  Tensor shift, factor, inverse;  // [dim], L [dim, dim] and its inverse
  Tensor from(const Tensor& x) const { return factor.defined() ? at::matmul(x - shift, inverse.t()) : x; }
  Tensor to(const Tensor& z) const { return factor.defined() ? at::matmul(z, factor.t()) + shift : z; }
};

class Anice final : public Kernel {
 public:
  Anice(Density density, std::shared_ptr<const Nice> nice, int64_t velocity, Units units)
      : Kernel(decide_exactly(std::move(density))),
        nice_(std::move(nice)),
        velocity_(velocity),
        units_(std::move(units)) {}
  Move propose(const State& state, const ChainStreams& streams) const override {
    const at::NoGradGuard no_grad;
    const int64_t n = state.x.size(0);
    const Tensor start = streams.noise.normal(n, velocity_);
    Tensor z = units_.from(state.x), v = start;
    nice_->either(z, v, at::lt(streams.accept.uniform(n), 0.5));
    return {units_.to(z), {}, start.square().sum(-1) * -0.5, v.square().sum(-1) * -0.5};
  }

 private:
  std::shared_ptr<const Nice> nice_;
  int64_t velocity_;
  Units units_;
};

class Learner {
 public:
  Learner(const Target& target, const AniceOptions& options, Observer& observer)
      : target_(target),
        options_(options),
        observer_(observer),
        d_(target.dim()),
        nice_(d_, options),
        averaged_(std::make_shared<Nice>(d_, options)),
        best_(averaged_->parameters()),
        critic_(options.seed, 2 * d_, options.critic),
        generator_adam_(nice_.parameters(), 0.5, 0.9),
        critic_adam_(critic_.parameters(), 0.5, 0.9),
        streams_{options.seed, Phase::kAnice} {}

  std::unique_ptr<Kernel> run() {
    HmcOptions hmc;
    hmc.seed = options_.seed;
    const Tensor first = bootstrap(*tune_hmc(target_, hmc, observer_).kernel);  // before there is anything to draw with
    if (options_.standardise) {
      const Tensor rows = first.view({-1, d_});
      const Moments m = moments(rows);
      units_ = {m.mean, m.factor, at::linalg_inv(m.factor)};
      pool_ = units_.from(rows).to(at::kFloat);
    }
    const Anice kernel(density_of(target_), averaged_, options_.velocity, units_);
    const auto begin = std::chrono::steady_clock::now();
    double loss = 0;
    for (int64_t t = 1; t <= options_.iterations; ++t) {
      stop_if_asked();
      for (int64_t k = 0; k < options_.critic_steps; ++k) loss = move_critic();
      move_network();
      average(10.0 / static_cast<double>(10 + t));
      if (t % options_.bootstrap_every == 0 || t == options_.iterations) judge(bootstrap(kernel));
      if (t % 50 == 0)
        baseline::tell_progress("a-nice-mc", t, options_.iterations, loss, std::nan(""), seconds_since(begin),
                                observer_);
    }
    baseline::tell_skipped("A-NICE-MC", skipped_, options_.iterations * (options_.critic_steps + 1), observer_);
    best_.restore();
    return std::make_unique<Anice>(density_of(target_), averaged_, options_.velocity, units_);
  }

 private:
  void stop_if_asked() {
    if (observer_.should_stop()) throw Interrupted("stopped while learning A-NICE-MC");
  }

  // What chains sample with: the average of the network over about the last tenth of its steps.
  void average(double share) {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < nice_.parameters().size(); ++i)
      averaged_->parameters()[i].lerp_(nice_.parameters()[i], share);
  }

  // Chains with the accept step, [chains, draws, dim]; half of the older draws stay in the pool. They begin at noise;
  // where coordinates are standardised, in these: noise in the target's own can be so far out that chains do not come
  // back, and what they draw on the way would be taken for real.
  Tensor bootstrap(const Kernel& kernel) {
    const at::NoGradGuard no_grad;
    const Tensor noise = start_.normal({options_.bootstrap_chains, d_});
    State state = kernel.init(units_.factor.defined() ? units_.to(noise) : noise * target_.scale());
    Tensor draws = at::empty({options_.bootstrap_chains, options_.bootstrap_steps, d_}, at::kDouble);
    for (int64_t t = -options_.bootstrap_burn_in; t < options_.bootstrap_steps; ++t) {
      stop_if_asked();
      kernel.step(state, {noise_, uniforms_});
      if (t >= 0) draws.select(1, t).copy_(state.x);
    }
    std::vector<Tensor> kept = {units_.from(draws.view({-1, d_})).to(at::kFloat)};
    if (pool_.defined())
      kept.push_back(pool_.index_select(0, rows_.permutation(pool_.size(0)).narrow(0, 0, pool_.size(0) / 2)));
    pool_ = at::cat(kept, 0);
    return draws;
  }

  // The losses do not say how well chains mix; the chains do.
  void judge(const Tensor& chains) {
    const Tensor statistics = target_.statistics(chains.view({-1, d_}));
    best_.offer(least_bulk_ess(statistics.view({chains.size(0), chains.size(1), -1})));
  }

  Tensor real(int64_t n) { return pool_.index_select(0, rows_.integers(n, pool_.size(0))); }

  // Up to `most` steps of f, without the accept step; what the last of them makes of v is kept.
  Tensor walk(Tensor x, int64_t most) {
    Tensor v;
    for (int64_t t = rows_.integers(1, most).item<int64_t>(); t >= 0; --t) {
      v = noise_.normal({x.size(0), options_.velocity}).to(at::kFloat);
      nice_.forward(x, v);
    }
    velocities_.push_back(v);
    return x;
  }

  // Pairs that the chain joins: from noise, and from a draw. They are to look like pairs of independent draws.
  Tensor fake_pairs(const Tensor& near) {
    velocities_.clear();
    const Tensor far = walk(start_.normal(near.sizes()).to(at::kFloat), options_.from_noise);
    return at::cat(
        {at::cat({far, walk(far.detach(), options_.between)}, 1), at::cat({near, walk(near, options_.between)}, 1)}, 0);
  }

  double move_critic() {
    const at::NoGradGuard no_grad;
    const int64_t n = options_.batch;
    // The draws that begin pairs are the real pairs too, two and two.
    const Tensor near = real(n), fake = fake_pairs(near), share = uniforms_.uniform({2 * n, 1}).to(at::kFloat);
    const Tensor between = share * real(4 * n).view({2 * n, 2 * d_}) + (1 - share) * fake;
    Critic::Loss loss = critic_.loss(fake, near.view({n / 2, 2 * d_}), between, options_.penalty);
    skipped_ += !descend(critic_adam_, std::move(loss.gradient), options_.learning_rate);
    return loss.value;
  }

  // The pairs deceive the critic; v stays likely under N(0, I), or nothing would be accepted.
  void move_network() {
    const Tensor pairs = fake_pairs(real(options_.batch)), slope = critic_.slope(pairs.detach());
    const Tensor deceived = (pairs * slope).sum() / static_cast<double>(-pairs.size(0)),
                 unlikely = 0.5 * at::cat(velocities_, 0).square().mean();
    skipped_ += !descend(generator_adam_, deceived + options_.velocity_weight * unlikely, options_.learning_rate);
  }

  const Target& target_;
  const AniceOptions& options_;
  Observer& observer_;
  int64_t d_;
  Nice nice_;
  std::shared_ptr<Nice> averaged_;
  baseline::Best best_;
  Units units_;
  Critic critic_;
  TensorAdam generator_adam_, critic_adam_;
  Streams streams_;
  Stream start_ = streams_(Purpose::kStart), noise_ = streams_(Purpose::kLocal),
         uniforms_ = streams_(Purpose::kLocalAccept), rows_ = streams_(Purpose::kBatch);
  Tensor pool_;                     // bootstrapped draws [n, dim] in the network's coordinates, float
  std::vector<Tensor> velocities_;  // of the last pairs
  int64_t skipped_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> learn_anice(const Target& target, const AniceOptions& options, Observer& observer) {
  if (options.batch < 2 || options.batch % 2 != 0)
    throw ConfigError(fmt::format("A-NICE-MC: batch {} must be even and positive: draws are paired", options.batch));
  const at::AutoGradMode with_grad(true);
  return Learner(target, options, observer).run();
}

}  // namespace hastings
