// L2HMC. One leapfrog step t of the forward operator, with masks m and 1 - m over the coordinates:
//   v <- v exp(e/2 S_v) - e/2 (grad U exp(e Q_v) + T_v),            from (x, grad U, t)
//   x <- x on m kept, elsewhere x exp(e S_x) + e (v exp(e Q_x) + T_x),   from (m x, v, t); then the other half
//   v again.
// Backwards the same steps are undone in reverse order. A transition goes forwards or backwards with probability 1/2
// each and accepts with the exact log-determinant, so it is reversible on (x, v).
#include <numbers>

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

// Two inputs and the time, one more hidden layer, three heads; S and Q are bounded by a learned scale.
class Net {
 public:
  Net(Leaves& leaves, int64_t dim, int64_t hidden, double heads)
      : a_(leaves.add({dim, hidden}, 1.0 / 3)),
        b_(leaves.add({dim, hidden}, 1.0 / 3)),
        time_(leaves.add({2, hidden}, 1.0 / 3)),
        bias_(leaves.add({hidden}, 0)),
        w_(leaves.add({hidden, hidden}, 1)),
        w_bias_(leaves.add({hidden}, 0)) {
    for (int k = 0; k < 3; ++k) {
      head_.push_back(leaves.add({hidden, dim}, heads));
      head_bias_.push_back(leaves.add({dim}, 0));
    }
    for (int k = 0; k < 2; ++k) log_scale_.push_back(leaves.add({dim}, 0));
  }
  Outputs operator()(const Tensor& a, const Tensor& b, const Tensor& time) const {
    Tensor h = at::relu(at::addmm(bias_, a, a_) + at::matmul(b, b_) + at::matmul(time, time_));
    h = at::relu(at::addmm(w_bias_, h, w_));
    return {log_scale_[0].exp() * at::tanh(at::addmm(head_bias_[0], h, head_[0])),
            log_scale_[1].exp() * at::tanh(at::addmm(head_bias_[1], h, head_[1])),
            at::addmm(head_bias_[2], h, head_[2])};
  }

 private:
  Tensor a_, b_, time_, bias_, w_, w_bias_;
  std::vector<Tensor> head_, head_bias_, log_scale_;
};

struct Moved {
  Tensor x, v, log_det;
};
using Force = std::function<Tensor(const Tensor&)>;  // gradient of log p

class Operator {
 public:
  Operator(int64_t dim, const L2hmcOptions& options)
      : leaves_(options.seed, at::kDouble),
        log_step_(leaves_.add({1}, 0)),
        first_step_(options.step_size),
        steps_(options.leapfrog_steps),
        velocity_(leaves_, dim, options.hidden, options.heads),
        position_(leaves_, dim, options.hidden, options.heads) {
    Stream random(options.seed, 1, Purpose::kWeights);
    for (int t = 0; t < steps_; ++t) {  // a random half of the coordinates for each step, fixed
      Tensor mask = at::zeros({dim}, at::kDouble);
      mask.index_fill_(0, random.permutation(dim).narrow(0, 0, (dim + 1) / 2), 1.0);
      masks_.push_back(mask);
      const double angle = 2 * std::numbers::pi * t / steps_;
      times_.push_back(at::tensor({std::cos(angle), std::sin(angle)}, at::kDouble).unsqueeze(0));
    }
  }

  Moved forward(Tensor x, Tensor v, const Force& force) const {
    const Tensor e = step();
    Tensor log_det = at::zeros({x.size(0)}, at::kDouble);
    for (int t = 0; t < steps_; ++t) {
      push_velocity(x, v, log_det, e, t, force);
      push_position(x, v, log_det, e, t, mask(t));
      push_position(x, v, log_det, e, t, 1 - mask(t));
      push_velocity(x, v, log_det, e, t, force);
    }
    return {x, v, log_det};
  }

  Moved backward(Tensor x, Tensor v, const Force& force) const {
    const Tensor e = step();
    Tensor log_det = at::zeros({x.size(0)}, at::kDouble);
    for (int t = steps_; t-- > 0;) {
      pull_velocity(x, v, log_det, e, t, force);
      pull_position(x, v, log_det, e, t, 1 - mask(t));
      pull_position(x, v, log_det, e, t, mask(t));
      pull_velocity(x, v, log_det, e, t, force);
    }
    return {x, v, log_det};
  }

  const std::vector<Tensor>& parameters() const { return leaves_.all(); }

 private:
  Tensor step() const { return first_step_ * log_step_.exp(); }
  const Tensor& mask(int t) const { return masks_[static_cast<size_t>(t)]; }
  const Tensor& time(int t) const { return times_[static_cast<size_t>(t)]; }

  void push_velocity(const Tensor& x, Tensor& v, Tensor& log_det, const Tensor& e, int t, const Force& force) const {
    const Tensor gradient = -force(x);
    const Outputs o = velocity_(x, gradient, time(t));
    v = v * (0.5 * e * o.s).exp() - 0.5 * e * (gradient * (e * o.q).exp() + o.t);
    log_det = log_det + 0.5 * e * o.s.sum(-1);
  }
  void pull_velocity(const Tensor& x, Tensor& v, Tensor& log_det, const Tensor& e, int t, const Force& force) const {
    const Tensor gradient = -force(x);
    const Outputs o = velocity_(x, gradient, time(t));
    v = (v + 0.5 * e * (gradient * (e * o.q).exp() + o.t)) * (-0.5 * e * o.s).exp();
    log_det = log_det - 0.5 * e * o.s.sum(-1);
  }
  // The coordinates in `kept` stay.
  void push_position(Tensor& x, const Tensor& v, Tensor& log_det, const Tensor& e, int t, const Tensor& kept) const {
    const Tensor moved = 1 - kept;
    const Outputs o = position_(kept * x, v, time(t));
    x = kept * x + moved * (x * (e * o.s).exp() + e * (v * (e * o.q).exp() + o.t));
    log_det = log_det + e * (moved * o.s).sum(-1);
  }
  void pull_position(Tensor& x, const Tensor& v, Tensor& log_det, const Tensor& e, int t, const Tensor& kept) const {
    const Tensor moved = 1 - kept;
    const Outputs o = position_(kept * x, v, time(t));
    x = kept * x + moved * ((x - e * (v * (e * o.q).exp() + o.t)) * (-e * o.s).exp());
    log_det = log_det - e * (moved * o.s).sum(-1);
  }

  Leaves leaves_;
  Tensor log_step_;
  double first_step_;
  int steps_;
  Net velocity_, position_;
  std::vector<Tensor> masks_, times_;
};

// Rows with `ahead` go forwards, the others backwards.
Moved transition(const Operator& op, const Tensor& x, const Tensor& v, const Tensor& ahead, const Force& force) {
  const Tensor there = ahead.nonzero().squeeze(1), back = at::logical_not(ahead).nonzero().squeeze(1);
  std::vector<Moved> parts;
  std::vector<Tensor> rows;
  if (there.size(0) > 0) {
    parts.push_back(op.forward(x.index_select(0, there), v.index_select(0, there), force));
    rows.push_back(there);
  }
  if (back.size(0) > 0) {
    parts.push_back(op.backward(x.index_select(0, back), v.index_select(0, back), force));
    rows.push_back(back);
  }
  const Tensor order = at::cat(rows, 0).argsort();
  auto join = [&](Tensor Moved::*field) {
    std::vector<Tensor> all;
    for (const auto& part : parts) all.push_back(part.*field);
    return at::cat(all, 0).index_select(0, order);
  };
  return {join(&Moved::x), join(&Moved::v), join(&Moved::log_det)};
}

class L2hmc final : public LocalKernel {
 public:
  explicit L2hmc(std::shared_ptr<const Operator> op) : op_(std::move(op)) {}
  LocalInfo step(LocalState& state, const Density& density, RowStreams noise, RowStreams uniforms) const override {
    const at::NoGradGuard no_grad;
    const int64_t n = state.x.size(0);
    const Tensor v = noise.normal(n, state.x.size(1)), ahead = at::lt(uniforms.uniform(n), 0.5);
    const Moved to = transition(*op_, state.x, v, ahead, [&](const Tensor& x) { return density(x, true).gradient; });
    return metropolis_step(state, to.x, density(to.x, false), v.square().sum(-1) * -0.5,
                           to.v.square().sum(-1) * -0.5 + to.log_det, uniforms.uniform(n));
  }

 private:
  std::shared_ptr<const Operator> op_;
};

// Gradient of log p that can be differentiated again.
Tensor graph_force(const Target& target, double beta, const Tensor& at_x) {
  const Tensor x = at_x.requires_grad() ? at_x : at_x.detach().requires_grad_(true);
  return beta * torch::autograd::grad({target.log_prob(x).sum()}, {x}, {}, true, /*create_graph=*/true)[0];
}

}  // namespace

std::unique_ptr<LocalKernel> learn_l2hmc(const Target& target, const L2hmcOptions& given, Observer& observer) {
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
  Stream start(options.seed, 0, Purpose::kStart), noise(options.seed, 0, Purpose::kLocal),
      uniforms(options.seed, 1, Purpose::kLocal);
  double beta = 1;
  const Force force = [&](const Tensor& x) { return graph_force(target, beta, x); };
  Tensor x = tuned.states;
  for (int64_t t = 0; t < options.iterations; ++t) {
    if (observer.should_stop()) throw Interrupted("stopped while learning L2HMC");
    // Modes far apart are joined while the target is warm.
    const double left = std::max(0.0, 1 - 2 * static_cast<double>(t) / static_cast<double>(options.iterations));
    beta = std::pow(options.temperature, -left);
    // The chains' states; where asked for, fresh draws of a standard normal as burn-in term.
    const Tensor from = options.burn_in > 0 ? at::cat({x, start.normal({n, d})}, 0) : x;
    const Tensor v = noise.normal(from.sizes()), ahead = at::lt(uniforms.uniform({from.size(0)}), 0.5);
    const Moved to = transition(*op, from, v, ahead, force);
    const Tensor r = beta * (target.log_prob(to.x) - target.log_prob(from)) -
                     0.5 * (to.v.square().sum(-1) - v.square().sum(-1)) + to.log_det;
    const Tensor accept = at::where(at::isfinite(r), r, at::full_like(r, -1e3)).clamp_max(0).exp();
    const Tensor moved = ((to.x - from).square().sum(-1) * accept).nan_to_num(0, 0, 0) + 1e-4;
    const Tensor each = options.scale * moved.reciprocal() - moved / options.scale;
    Tensor loss = each.narrow(0, 0, n).mean();
    if (options.burn_in > 0) loss = loss + options.burn_in * each.narrow(0, n, n).mean();
    const double rate = options.learning_rate * std::pow(0.96, static_cast<double>(t / 1000));
    descend(adam, loss, rate);
    const at::NoGradGuard no_grad;
    const Tensor take = at::lt(uniforms.uniform({n}), accept.narrow(0, 0, n)).unsqueeze(1);
    x = at::where(take, to.x.narrow(0, 0, n), x).detach();
    if ((t + 1) % 50 == 0) {
      LearnProgress row;
      row.phase = "l2hmc";
      row.iteration = t + 1;
      row.max_iterations = options.iterations;
      row.loss = loss.item<double>();
      row.acceptance = accept.narrow(0, 0, n).mean().item<double>();
      observer.on_learn(row);
    }
  }
  return std::make_unique<L2hmc>(op);
}

}  // namespace hastings
