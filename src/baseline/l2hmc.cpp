// L2HMC. One leapfrog step t of the forward operator, with masks m and 1 - m over the coordinates:
//   v <- v exp(e/2 S_v) - e/2 (grad U exp(e Q_v) + T_v),            from (x, grad U, t)
//   x <- x on m kept, elsewhere x exp(e S_x) + e (v exp(e Q_x) + T_x),   from (m x, v, t); then the other half
//   v again.
// Backwards the same steps are undone in reverse order. A transition goes forwards or backwards with probability 1/2
// each and accepts with the exact log-determinant, so it is reversible on (x, v). Rows of both directions go through
// the networks together.
#include <chrono>
#include <numbers>
#include <utility>

#include "dense.h"
#include "hastings/baseline/learned_kernels.h"
#include "hastings/core/error.h"

namespace hastings {
namespace {

using baseline::descend;
using baseline::Leaves;

struct Outputs {
  Tensor s, q, t;
};

// Two inputs and the time, one more hidden layer, three heads side by side; S and Q are bounded by a learned scale.
// Units begin with variances of order one, as in the authors' code but for a factor of the masked input: from smaller
// weights learning takes off late, or not at all.
class Net {
 public:
  Net(Leaves& leaves, int64_t dim, int64_t hidden, double heads)
      : dim_(dim),
        a_(leaves.add({dim, hidden}, kEmbedding)),
        b_(leaves.add({dim, hidden}, kEmbedding)),
        time_(leaves.add({2, hidden}, kEmbedding)),
        bias_(leaves.add({hidden}, 0)),
        w_(leaves.add({hidden, hidden}, std::numbers::sqrt2)),
        w_bias_(leaves.add({hidden}, 0)),
        heads_(leaves.add({hidden, 3 * dim}, heads)),
        heads_bias_(leaves.add({3 * dim}, 0)),
        log_scale_(leaves.add({2 * dim}, 0)) {}
  Outputs operator()(const Tensor& a, const Tensor& b, const Tensor& time) const {
    Tensor h = at::relu(at::addmm(at::addmm(at::addmm(bias_, time, time_), a, a_), b, b_));
    h = at::relu(at::addmm(w_bias_, h, w_));
    const Tensor out = at::addmm(heads_bias_, h, heads_), sq = log_scale_.exp() * out.narrow(1, 0, 2 * dim_).tanh();
    return {sq.narrow(1, 0, dim_), sq.narrow(1, dim_, dim_), out.narrow(1, 2 * dim_, dim_)};
  }

 private:
  static constexpr double kEmbedding = std::numbers::sqrt2 / std::numbers::sqrt3;  // three are summed
  int64_t dim_;
  Tensor a_, b_, time_, bias_, w_, w_bias_, heads_, heads_bias_, log_scale_;
};

struct Moved {
  Tensor x, v, log_det;
};
using Force = std::function<Tensor(const Tensor&)>;  // gradient of log p

class Operator {
 public:
  Operator(int64_t dim, const L2hmcOptions& options)
      : leaves_({options.seed, Phase::kL2hmc}, at::kDouble),
        log_step_(leaves_.add({1}, 0)),
        first_step_(options.step_size),
        steps_(options.leapfrog_steps),
        velocity_(leaves_, dim, options.hidden, options.heads),
        position_(leaves_, dim, options.hidden, options.heads) {
    Stream random(options.seed, Phase::kL2hmc, 0, Purpose::kChoice);
    for (int t = 0; t < steps_; ++t) {  // a random half of the coordinates for each step, fixed
      Tensor mask = at::zeros({dim}, at::kDouble);
      mask.index_fill_(0, random.permutation(dim).narrow(0, 0, (dim + 1) / 2), 1.0);
      masks_.push_back(mask);
      const double angle = 2 * std::numbers::pi * t / steps_;
      times_.push_back(at::tensor({std::cos(angle), std::sin(angle)}, at::kDouble));
    }
  }

  // Rows with `ahead` [n] go forwards, the others backwards.
  Moved operator()(const Tensor& x, const Tensor& v, const Tensor& ahead, const Force& force) const {
    const Tensor forwards = ahead.unsqueeze(1);
    State state{x, v, at::zeros({x.size(0)}, at::kDouble), forwards.to(at::kDouble), first_step_ * log_step_.exp()};
    Tensor slope = -force(x);
    for (size_t t = 0, undone = times_.size() - 1; t < times_.size(); ++t, --undone) {
      const Tensor time = at::where(forwards, times_[t], times_[undone]),
                   kept = at::where(forwards, masks_[t], 1 - masks_[undone]);
      move_velocity(state, slope, time);
      move_position(state, kept, time);
      move_position(state, 1 - kept, time);
      slope = -force(state.x);
      move_velocity(state, slope, time);
    }
    return {state.x, state.v, state.log_det};
  }

  const std::vector<Tensor>& parameters() const { return leaves_.all(); }

 private:
  struct State {
    Tensor x, v, log_det;
    Tensor ahead;  // [n, 1], one or zero
    Tensor e;      // the step size
    Tensor sign() const { return 2 * ahead - 1; }
    // y exp(s) + shift, or for rows that go backwards (y - shift) exp(-s).
    Tensor map(const Tensor& y, const Tensor& s, const Tensor& shift) const {
      return (y - (1 - ahead) * shift) * (sign() * s).exp() + ahead * shift;
    }
  };

  void move_velocity(State& state, const Tensor& slope, const Tensor& time) const {
    const Outputs o = velocity_(state.x, slope, time);
    const Tensor half = 0.5 * state.e, s = half * o.s;
    state.v = state.map(state.v, s, -half * (slope * (state.e * o.q).exp() + o.t));
    state.log_det = state.log_det + (state.sign() * s).sum(-1);
  }
  // The coordinates in `kept` [n, dim] stay.
  void move_position(State& state, const Tensor& kept, const Tensor& time) const {
    const Tensor still = kept * state.x, moved = 1 - kept;
    const Outputs o = position_(still, state.v, time);
    const Tensor s = moved * (state.e * o.s);
    state.x = still + moved * state.map(state.x, s, state.e * (state.v * (state.e * o.q).exp() + o.t));
    state.log_det = state.log_det + (state.sign() * s).sum(-1);
  }

  Leaves leaves_;
  Tensor log_step_;
  double first_step_;
  int steps_;
  Net velocity_, position_;
  std::vector<Tensor> masks_, times_;
};

class L2hmc final : public Kernel {
 public:
  L2hmc(Density density, std::shared_ptr<const Operator> op)
      : Kernel(decide_exactly(density)), density_(std::move(density)), op_(std::move(op)) {}
  Move propose(const hastings::State& state, const ChainStreams& streams) const override {
    const at::NoGradGuard no_grad;
    const int64_t n = state.x.size(0);
    const Tensor v = streams.noise.normal(n, state.x.size(1)), ahead = at::lt(streams.accept.uniform(n), 0.5);
    Evaluated last;  // the end of the trajectory, once it is there
    const Moved to = (*op_)(state.x, v, ahead, [&](const Tensor& x) { return (last = density_(x, true)).gradient; });
    return {to.x, last, v.square().sum(-1) * -0.5, to.v.square().sum(-1) * -0.5 + to.log_det};
  }

 private:
  Density density_;
  std::shared_ptr<const Operator> op_;
};

constexpr int64_t kStage = 250;  // steps over which a network is judged

// Gradient of log p that can be differentiated again.
Tensor graph_force(const Target& target, double beta, const Tensor& at_x) {
  const Tensor x = at_x.requires_grad() ? at_x : at_x.detach().requires_grad_(true);
  const Tensor force = torch::autograd::grad({target.log_prob(x).sum()}, {x}, {}, true, /*create_graph=*/true)[0];
  if (!force.requires_grad()) throw ConfigError("L2HMC needs a target whose gradient can be differentiated again");
  return beta * force;
}

}  // namespace

std::unique_ptr<Kernel> learn_l2hmc(const Target& target, const L2hmcOptions& given, Observer& observer) {
  // Chains begin where a tuned HMC has come to; from far out no transition would be accepted, and none learned from.
  L2hmcOptions options = given;
  HmcOptions hmc;
  hmc.leapfrog_steps = options.leapfrog_steps;
  hmc.seed = options.seed;
  hmc.chains = options.chains;
  const TunedHmc tuned = tune_hmc(target, hmc, observer);
  if (options.step_size == 0) options.step_size = tuned.step_size;
  const at::AutoGradMode with_grad(true);
  const int64_t n = options.chains, d = target.dim();
  const auto op = std::make_shared<Operator>(d, options);
  TensorAdam adam(op->parameters(), 0.9, 0.999);
  const Streams streams{options.seed, Phase::kL2hmc};
  Stream start = streams(Purpose::kStart), noise = streams(Purpose::kLocal), uniforms = streams(Purpose::kLocalAccept);
  double beta = 1;
  int64_t skipped = 0;
  const Force force = [&](const Tensor& x) { return graph_force(target, beta, x); };
  Tensor x = tuned.states;
  baseline::Best best(op->parameters());
  double stage = 0;  // sum of the distances moved, which is what the loss asks for
  int64_t stage_steps = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t t = 0; t < options.iterations; ++t) {
    if (observer.should_stop()) throw Interrupted("stopped while learning L2HMC");
    // Modes far apart are joined while the target is warm.
    const double left = std::max(0.0, 1 - 2 * static_cast<double>(t) / static_cast<double>(options.iterations));
    beta = std::pow(options.temperature, -left);
    // The chains' states; where asked for, fresh draws of a standard normal as burn-in term.
    const Tensor from = options.burn_in > 0 ? at::cat({x, start.normal({n, d})}, 0) : x;
    const Tensor v = noise.normal(from.sizes()), ahead = at::lt(uniforms.uniform({from.size(0)}), 0.5);
    const Moved to = (*op)(from, v, ahead, force);
    const Tensor r = beta * (target.log_prob(to.x) - target.log_prob(from)) -
                     0.5 * (to.v.square().sum(-1) - v.square().sum(-1)) + to.log_det;
    const Tensor accept = at::where(at::isfinite(r), r, at::full_like(r, -1e3)).clamp_max(0).exp();
    const Tensor moved = ((to.x - from).square().sum(-1) * accept).nan_to_num(0, 0, 0) + 1e-4;
    const Tensor each = options.scale * moved.reciprocal() - moved / options.scale;
    Tensor loss = each.narrow(0, 0, n).mean();
    if (options.burn_in > 0) loss = loss + options.burn_in * each.narrow(0, n, n).mean();
    const double rate = options.learning_rate * std::pow(0.96, static_cast<double>(t / 1000));
    skipped += !descend(adam, loss, rate);
    const at::NoGradGuard no_grad;
    const Tensor take = at::lt(uniforms.uniform({n}), accept.narrow(0, 0, n)).unsqueeze(1);
    x = at::where(take, to.x.narrow(0, 0, n), x).detach();
    if (beta == 1) {
      stage += moved.narrow(0, 0, n).mean().item<double>();
      if (++stage_steps % kStage == 0) best.offer(std::exchange(stage, 0));
    }
    if ((t + 1) % 50 == 0)
      baseline::tell_progress("l2hmc", t + 1, options.iterations, loss.item<double>(),
                              accept.narrow(0, 0, n).mean().item<double>(), seconds_since(begin), observer);
  }
  baseline::tell_skipped("L2HMC", skipped, options.iterations, observer);
  best.restore();
  return std::make_unique<L2hmc>(density_of(target), op);
}

}  // namespace hastings
