// One step of Algorithm 1: candidates and states through the flow, the objective, its gradient, Adam.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <memory>
#include <vector>

#include "adam.h"
#include "control.h"
#include "hastings/chain/independent.h"
#include "hastings/core/accept.h"
#include "hastings/core/error.h"
#include "hastings/core/parallel.h"
#include "hastings/learn/learner.h"

namespace hastings {

// A step is cut into shards, whatever the machine; one's part of it.
struct Shard {
  Draws draws;
  Gradient target;   // log density and gradient at the draws
  Tensor candidate;  // log weights of the draws
  Tensor state;      // log weights of the buffer's points
  std::unique_ptr<Pass> pass;
  std::unique_ptr<Pass> control;  // once it is used
};

// Autocorrelation at lag one of the worst coordinate, as far as it comes from rejections: the mean over the states of
// P(rejected | x) z^2, z the standardised coordinate. States far out are held longest, and count most.
inline double lag_one(const Tensor& candidate, const Tensor& state, const Tensor& x) {
  const double top = candidate.nan_to_num(-1e300, -1e300, -1e300).max().item<double>();
  const Tensor sorted = std::get<0>(candidate.nan_to_num(-1e300, -1e300, -1e300).sort());
  const Tensor below = at::cat({at::zeros({1}, at::kDouble), (sorted - top).exp().cumsum(0)});
  const Tensor count = at::searchsorted(sorted, state.contiguous());
  const auto n = static_cast<double>(candidate.size(0));
  const Tensor accepted = (below.index_select(0, count) * (top - state).exp() + (n - count.to(at::kDouble))) / n;
  const Tensor rejected = (1 - accepted).nan_to_num(1, 1, 1).clamp(0, 1);
  const Tensor z2 = (x - x.mean(0)).square() / x.var(0, true).clamp_min(1e-300);
  return (z2 * rejected.unsqueeze(1)).mean(0).max().item<double>();
}

// The rows whose candidate replaces their state.
inline Tensor accepted_rows(const Tensor& candidate, const Tensor& state, Stream& uniforms) {
  return accept_mask(uniforms.uniform({candidate.size(0)}).log(), log_ratio(candidate, state)).nonzero().squeeze(1);
}

// The proposal, its parameters and their average, the optimiser: what learning moves.
class Step {
 public:
  Step(const Target& target, FlowProposal& proposal, const LearnOptions& options, int64_t batch)
      : target_(target),
        proposal_(proposal),
        threads_(resolve_threads(options.threads)),
        clip_(options.clip),
        batch_(batch),
        shards_(static_cast<size_t>((batch + kShardRows - 1) / kShardRows)),
        values_(proposal.parameters()),
        gradient_(values_.size()),
        average_(values_),
        best_(values_),
        adam_(rates_of(proposal)) {
    for (auto& shard : shards_) shard.pass = proposal.make_pass();
  }

  struct Outcome {
    ObjectiveValue value;
    Tensor x, log_prob, candidate, state;  // whole batch
    bool skipped = false;
  };

  Outcome take(Objective objective, const Tensor& noise, const Tensor& state_x, const Tensor& state_log_prob,
               double rate) {
    const auto count = static_cast<int64_t>(shards_.size());
    const bool with_states = objective != Objective::kVi;  // variational inference knows no states
    auto rows = [&](const Tensor& t, int64_t s) {
      const int64_t begin = s * kShardRows;
      return t.narrow(0, begin, std::min(kShardRows, batch_ - begin));
    };
    parallel_tasks(count, threads_, [&](int64_t s) {
      Shard& shard = shards_[static_cast<size_t>(s)];
      shard.draws = proposal_.draw(rows(noise, s), *shard.pass);
      shard.target = target_.with_gradient(shard.draws.x);
      shard.candidate = shard.target.log_prob - shard.draws.log_q;
      shard.state = with_states ? rows(state_log_prob, s) - proposal_.score(rows(state_x, s), *shard.pass)
                                : at::empty({0}, at::kDouble);
    });
    Outcome out;
    out.x = gather([](const Shard& shard) { return shard.draws.x; });
    out.log_prob = gather([](const Shard& shard) { return shard.target.log_prob; });
    out.candidate = gather([](const Shard& shard) { return shard.candidate; });
    out.state = gather([](const Shard& shard) { return shard.state; });
    out.value = evaluate(objective, out.candidate, out.state);
    const bool controlled = objective == Objective::kArlb && count > 1 && out.value.non_finite == 0 && control_.next();
    parallel_tasks(count, threads_, [&](int64_t s) {
      // w' = log p(x') - log q(x'), w = log p(x) - log q(x). Candidates left out have weight 0, whatever their
      // gradient.
      Shard& shard = shards_[static_cast<size_t>(s)];
      const Tensor g = rows(out.value.grad_candidate, s).contiguous();
      const Tensor grad_x = at::where(at::eq(g, 0).unsqueeze(1), at::zeros_like(shard.target.gradient),
                                      g.unsqueeze(1) * shard.target.gradient);
      shard.pass->clear_gradient();
      proposal_.draw_derivative(grad_x, -g, *shard.pass);
      if (with_states) proposal_.score_derivative(-rows(out.value.grad_state, s).contiguous(), *shard.pass);
      if (controlled)
        add_control(shard, rows(out.value.grad_candidate, s), rows(state_x, s), rows(out.value.grad_state, s));
    });
    out.skipped = !update(out.value.loss, rate, controlled);
    return out;
  }

  // The average of the parameters over the last steps (Polyak and Juditsky 1992): the noise of single steps cancels.
  void keep_average() { best_ = average_; }
  void review_control() { control_.review(); }
  void use_best() { proposal_.set_parameters(best_); }
  // Back to the best parameters so far, without the optimiser's memory of how they were lost.
  void roll_back() {
    values_ = average_ = best_;
    proposal_.set_parameters(values_);
    adam_.forget();
  }

  template <class Archive>
  void fields(Archive& a) {
    a("values", values_);
    a("average", average_);
    a("best", best_);
    a("adam", adam_);
    a("control", control_);
  }
  void resume() {  // after fields() were read
    if (values_.size() != gradient_.size() || average_.size() != gradient_.size() || best_.size() != gradient_.size())
      throw DataError("the stored state of learning is of another flow");
    proposal_.set_parameters(values_);
  }

  // Acceptance and divergence of the averaged proposal against the buffer's points.
  struct Judgement {
    ObjectiveValue value;
    double lag_one = 1;
  };
  // While the proposal moved, the buffer's chains followed it, and it looks better to them than it is. So they first
  // make `steps` steps with the averaged proposal, frozen; the last of them is what is judged.
  Judgement judge(Population& buffer, int64_t steps, const ChainStreams& streams) {
    proposal_.set_parameters(average_);
    const IndependentKernel kernel(density_of(target_), proposal_, {kShardRows, threads_});
    State chains{buffer.x, buffer.log_prob, {}, log_q(buffer.x)};
    Judgement out;
    for (int64_t k = 0; k < steps; ++k) {
      const Move move = kernel.propose(chains, streams);
      if (k + 1 == steps) {
        const Tensor candidate = IndependentKernel::log_weight(move), state = IndependentKernel::log_weight(chains);
        out = {evaluate(Objective::kAr, candidate, state), lag_one(candidate, state, chains.x)};
      }
      kernel.decide(chains, move, streams);
    }
    buffer = {chains.x, chains.log_prob};
    proposal_.set_parameters(values_);
    return out;
  }

 private:
  Tensor log_q(const Tensor& x) const {
    const int64_t n = x.size(0);
    Tensor out = at::empty({n}, at::kDouble);
    parallel_tasks((n + kShardRows - 1) / kShardRows, threads_, [&](int64_t b) {
      const int64_t from = b * kShardRows, rows = std::min(kShardRows, n - from);
      out.narrow(0, from, rows).copy_(proposal_.log_prob(x.narrow(0, from, rows)));
    });
    return out;
  }

  static std::vector<double> rates_of(const FlowProposal& proposal) {
    std::vector<double> rates;
    for (const auto& slot : proposal.slots())
      rates.insert(rates.end(), static_cast<size_t>(slot.size), slot.trainable ? slot.rate : 0.0);
    return rates;
  }

  template <class Get>
  Tensor gather(const Get& get) const {
    std::vector<Tensor> parts;
    for (const auto& shard : shards_) parts.push_back(get(shard));
    return at::cat(parts, 0);
  }

  // Weights g and h [rows]: sum g d log q(x') - sum h d(log p(x) + log det), x drawn again from where it lies in the
  // base.
  void add_control(Shard& shard, const Tensor& g, const Tensor& x, const Tensor& h) {
    if (!shard.control) shard.control = proposal_.make_pass();
    shard.control->clear_gradient();
    proposal_.score(shard.draws.x, *shard.control);
    proposal_.score_derivative(g.contiguous(), *shard.control);
    proposal_.redraw(*shard.pass, *shard.control);
    proposal_.draw_derivative(-h.unsqueeze(1) * target_.with_gradient(x.contiguous()).gradient, h.contiguous(),
                              *shard.control);
  }

  // Sums the shards' gradients in their order, clips, and moves; false if anything is not finite.
  bool update(double loss, double rate, bool controlled) {
    std::fill(gradient_.begin(), gradient_.end(), 0.0);
    for (const auto& shard : shards_) shard.pass->add_gradient_to(gradient_);
    if (controlled) control_.add(shards_, gradient_);
    double square = 0;
    for (const double g : gradient_) square += g * g;
    const double norm = std::sqrt(square);
    if (!std::isfinite(norm) || !std::isfinite(loss)) return false;
    if (norm > clip_) {
      for (double& g : gradient_) g *= clip_ / norm;
    }
    adam_.step(gradient_, rate, values_);
    proposal_.set_parameters(values_);
    const size_t n = values_.size();
#pragma omp simd
    for (size_t i = 0; i < n; ++i) average_[i] += kAverage * (values_[i] - average_[i]);
    return true;
  }

  const Target& target_;
  FlowProposal& proposal_;
  int threads_;
  double clip_;
  int64_t batch_;
  std::vector<Shard> shards_;
  static constexpr double kAverage = 0.01;
  static constexpr int64_t kShardRows = 128;
  std::vector<double> values_, gradient_, average_, best_;
  Adam adam_;
  Control control_;
};

}  // namespace hastings
