#include "hastings/learn/learner.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "../core/clock.h"
#include "adam.h"
#include "control.h"
#include "hastings/core/accept.h"
#include "hastings/core/error.h"
#include "hastings/core/parallel.h"
#include "schedule.h"
#include "state.h"

namespace hastings {
namespace {

constexpr int64_t kShardRows = 128;       // a step is cut into shards of this size, whatever the machine
constexpr double kSettle = 0.4;           // candidates at the end of a window, as a share of those in it
constexpr double kLagOne = 0.04;          // autocorrelation at lag one that is as good as none (the paper's is 0.05)
constexpr double kUsable = 0.8;           // acceptance below which no proposal is left as it is
constexpr int64_t kStartCost = 16;        // evaluations of the start, for each point of the buffer
constexpr int64_t kMaxSkippedInRow = 50;  // non-finite steps in a row before learning gives up

// One shard's part of a step.
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
double lag_one(const Tensor& candidate, const Tensor& state, const Tensor& x) {
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
Tensor accepted_rows(const Tensor& candidate, const Tensor& state, Stream& uniforms) {
  return accept_mask(uniforms.uniform({candidate.size(0)}).log(), log_ratio(candidate, state)).nonzero().squeeze(1);
}

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

  void save(State& state) const {
    put(state, "step.values", values_);
    put(state, "step.average", average_);
    put(state, "step.best", best_);
    put(state, "adam.first", adam_.first());
    put(state, "adam.second", adam_.second());
    put(state, "adam.steps", std::vector<int64_t>{adam_.steps()});
    control_.save(state);
  }
  void load(const State& state) {
    values_ = get_doubles(state, "step.values");
    average_ = get_doubles(state, "step.average");
    best_ = get_doubles(state, "step.best");
    if (values_.size() != gradient_.size()) throw DataError("the stored state of learning is of another flow");
    adam_.restore(get_doubles(state, "adam.first"), get_doubles(state, "adam.second"),
                  get_integers(state, "adam.steps").at(0));
    control_.load(state);
    proposal_.set_parameters(values_);
  }

  // Acceptance and divergence of the averaged proposal against the buffer's points.
  struct Judgement {
    ObjectiveValue value;
    double lag_one = 1;
  };
  // While the proposal moved, the buffer's chains followed it, and it looks better to them than it is. So they first
  // make `steps` steps with the averaged proposal, frozen; the last of them is what is judged.
  Judgement judge(Population& buffer, int64_t steps, Stream& noise, Stream& uniforms) {
    proposal_.set_parameters(average_);
    const int64_t n = buffer.x.size(0), blocks = (n + kShardRows - 1) / kShardRows;
    const Tensor x = at::empty_like(buffer.x), log_prob = at::empty({n}, at::kDouble);
    const Tensor candidate = at::empty({n}, at::kDouble), state = at::empty({n}, at::kDouble);
    Judgement out;
    for (int64_t k = 0; k < steps; ++k) {
      const Tensor z = noise.normal({n, proposal_.noise_dim()});
      parallel_tasks(blocks, threads_, [&](int64_t b) {
        auto rows = [&](const Tensor& t) {
          return t.narrow(0, b * kShardRows, std::min(kShardRows, n - b * kShardRows));
        };
        const Draws draws = proposal_.from_noise(rows(z));
        rows(x).copy_(draws.x);
        rows(log_prob).copy_(target_.log_prob(draws.x));
        rows(candidate).copy_(rows(log_prob) - draws.log_q);
        if (k == 0) rows(state).copy_(rows(buffer.log_prob) - proposal_.log_prob(rows(buffer.x)));
      });
      if (k + 1 == steps) out = {evaluate(Objective::kAr, candidate, state), lag_one(candidate, state, buffer.x)};
      const Tensor moved = accepted_rows(candidate, state, uniforms);
      auto move = [&](const Tensor& to, const Tensor& from) { to.index_copy_(0, moved, from.index_select(0, moved)); };
      move(buffer.x, x);
      move(buffer.log_prob, log_prob);
      move(state, candidate);
    }
    proposal_.set_parameters(values_);
    return out;
  }

 private:
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
  std::vector<double> values_, gradient_, average_, best_;
  Adam adam_;
  Control control_;
};

}  // namespace

void LearnOptions::validate() const {
  parse_objective(objective);
  if (batch != 0 && (batch < 2 || batch > 1 << 20))
    throw ConfigError(fmt::format("batch is {}, must be from 2 to 1048576", batch));
  if (!(learning_rate >= 0) || !std::isfinite(learning_rate))
    throw ConfigError(fmt::format("learning_rate is {}, must be positive", learning_rate));
  if (max_iterations < 0) throw ConfigError(fmt::format("max_iterations is {}, must not be negative", max_iterations));
  if (!(max_seconds >= 0)) throw ConfigError(fmt::format("max_seconds is {}, must not be negative", max_seconds));
  if (!(target_acceptance >= 0))
    throw ConfigError(fmt::format("target_acceptance is {}, must be positive", target_acceptance));
  if (!(wanted_ess >= 0)) throw ConfigError(fmt::format("wanted_ess is {}, must not be negative", wanted_ess));
  if (window < 0) throw ConfigError(fmt::format("window is {}, must be at least 1", window));
  if (patience < 0) throw ConfigError(fmt::format("patience is {}, must be at least 1", patience));
  if (reductions < -1) throw ConfigError(fmt::format("reductions is {}, must not be negative", reductions));
  if (!(lead_share >= 0 && lead_share <= 1))
    throw ConfigError(fmt::format("lead_share is {}, must be from 0 to 1", lead_share));
  if (!(clip > 0)) throw ConfigError(fmt::format("clip is {}, must be positive", clip));
  if (threads < 0) throw ConfigError(fmt::format("threads is {}, must not be negative", threads));
}

LearnOptions LearnOptions::resolved(const std::string& family) const {
  LearnOptions o = *this;
  const bool paper = family == "realnvp", splines = family == "spline", bend = family == "bend";
  if (o.batch == 0) o.batch = paper || splines ? 512 : 256;
  if (o.learning_rate == 0) o.learning_rate = paper ? 2e-3 : splines ? 3e-3 : bend ? 5e-4 : 4e-3;
  if (o.window == 0) o.window = paper ? 200 : splines ? 100 : 50;
  if (o.patience == 0) o.patience = paper ? 10 : splines ? 3 : 2;
  if (o.reductions < 0) o.reductions = paper || splines ? 4 : 3;
  // Where the paper's effective sample size is full already, more learning pays only for very many draws.
  if (o.target_acceptance == 0) o.target_acceptance = paper || splines ? 0.995 : bend ? 0.96 : 0.97;
  return o;
}

LearnResult learn(const Target& target, FlowProposal& proposal, Population& buffer, const LearnOptions& given,
                  Observer& observer, LearnStore* store) {
  given.validate();
  const LearnOptions options = given.resolved("");
  const auto begin = std::chrono::steady_clock::now();
  double before = 0;  // seconds of an earlier process
  auto elapsed = [&] { return before + seconds_since(begin); };
  const int64_t size = buffer.x.size(0), batch = std::min(options.batch, size);
  Stream noise(options.seed, 0, Purpose::kProposal), uniforms(options.seed, 0, Purpose::kAccept);
  Stream rows(options.seed, 0, Purpose::kBatch), judge_noise(options.seed, 1, Purpose::kProposal);
  Stream judge_uniforms(options.seed, 1, Purpose::kAccept);
  LearnResult result;
  Step step(target, proposal, options, batch);
  Tensor order = rows.permutation(size);
  const State stored = store ? store->load() : State();
  const auto in_windows = static_cast<double>(options.window * batch) / static_cast<double>(size);
  const int64_t settle = std::max<int64_t>(1, std::lround(kSettle * in_windows));
  auto judge = [&] { return step.judge(buffer, settle, judge_noise, judge_uniforms); };
  const auto start = stored.empty() ? judge() : Step::Judgement{};  // what learning has to beat
  const ObjectiveValue& first = start.value;
  double last_lag = start.lag_one;
  // Drawing what is wanted with the proposal as it is, against what was spent so far, in evaluations of the density (a
  // gradient counted as two): learning beyond that cannot pay.
  auto pays_no_more = [&](const Step::Judgement& j) {
    if (options.wanted_ess <= 0 || j.value.acceptance < kUsable) return false;
    const double lag = std::min(0.99, std::max(j.lag_one, last_lag)), efficiency = (1 - lag) / (1 + lag);
    const auto spent = static_cast<double>(kStartCost * size + 3 * batch * result.iterations);
    return options.wanted_ess / efficiency <= spent;
  };
  auto good = [&](const Step::Judgement& j) {  // two judgements together: one alone may be lucky
    const double lag = 0.5 * (j.lag_one + last_lag);
    last_lag = j.lag_one;
    return j.value.acceptance >= options.target_acceptance && lag < kLagOne;
  };
  result.acceptance = first.acceptance;
  result.acceptance_bound = acceptance_lower_bound(first.symmetric_kl);
  Schedule schedule(options, first.acceptance, first.symmetric_kl);
  int64_t at_row = 0, in_window = 0, skipped_in_row = 0;
  const bool vi = parse_objective(options.objective) == Objective::kVi;
  double loss = 0, best_loss = std::numeric_limits<double>::infinity();
  result.stopped = "max-iterations";
  const bool enough = pays_no_more(start);
  if (stored.empty() && !vi && (good(start) || enough)) {  // nothing to learn
    result.stopped = enough ? "wanted-ess" : "target-acceptance";
    result.seconds = seconds_since(begin);
    return result;
  }
  const std::vector<Stream*> streams = {&noise, &uniforms, &rows, &judge_noise, &judge_uniforms};
  auto save = [&] {
    State state;
    step.save(state);
    schedule.save(state);
    state["buffer.x"] = buffer.x;
    state["buffer.log_prob"] = buffer.log_prob;
    state["order"] = order;
    std::vector<int64_t> counts = {at_row, skipped_in_row, result.iterations, result.skipped, result.non_finite};
    for (const Stream* stream : streams) counts.push_back(static_cast<int64_t>(stream->position()));
    put(state, "learn.counts", counts);
    put(state, "learn.numbers",
        std::vector<double>{best_loss, last_lag, result.acceptance, result.acceptance_bound, elapsed()});
    put(state, "learn.history", result.history);
    store->save(state);
  };
  if (!stored.empty()) {
    const auto counts = get_integers(stored, "learn.counts");
    if (counts.size() != 5 + streams.size() || !stored.contains("control.numbers"))
      throw DataError("the stored state of learning is of another version of the program");
    step.load(stored);
    schedule.load(stored);
    buffer.x.copy_(in_state(stored, "buffer.x"));
    buffer.log_prob.copy_(in_state(stored, "buffer.log_prob"));
    order = in_state(stored, "order").clone();
    at_row = counts.at(0);
    skipped_in_row = counts.at(1);
    result.iterations = counts.at(2);
    result.skipped = counts.at(3);
    result.non_finite = counts.at(4);
    for (size_t i = 0; i < streams.size(); ++i) streams[i]->seek(static_cast<uint64_t>(counts.at(5 + i)));
    const auto numbers = get_doubles(stored, "learn.numbers");
    best_loss = numbers.at(0);
    last_lag = numbers.at(1);
    result.acceptance = numbers.at(2);
    result.acceptance_bound = numbers.at(3);
    before = numbers.at(4);
    result.history = get_history(stored, "learn.history");
  }
  while (result.iterations < options.max_iterations) {
    if (observer.should_stop()) throw Interrupted("stopped while learning");
    if (at_row + batch > size) {
      order = rows.permutation(size);
      at_row = 0;
    }
    const Tensor chosen = order.narrow(0, at_row, batch);
    at_row += batch;
    const auto out =
        step.take(schedule.objective(), noise.normal({batch, proposal.noise_dim()}), buffer.x.index_select(0, chosen),
                  buffer.log_prob.index_select(0, chosen), schedule.rate_at(result.iterations));
    ++result.iterations;
    result.non_finite += out.value.non_finite;
    if (out.skipped) {
      ++result.skipped;
      if (++skipped_in_row >= kMaxSkippedInRow) {
        throw NumericalError(
            fmt::format("target {}: loss or gradient was not finite in {} steps in a row; try a smaller "
                        "--learning-rate, --init anneal, or --precision double",
                        target.name(), skipped_in_row));
      }
    } else {
      skipped_in_row = 0;
      if (!vi) {  // the buffer's chains move by the accept rule with these very candidates
        const Tensor moved = accepted_rows(out.candidate, out.state, uniforms), to = chosen.index_select(0, moved);
        buffer.x.index_copy_(0, to, out.x.index_select(0, moved));
        buffer.log_prob.index_copy_(0, to, out.log_prob.index_select(0, moved));
      }
      loss += out.value.loss;
      ++in_window;
    }
    const bool out_of_time = options.max_seconds > 0 && elapsed() > options.max_seconds;
    if (in_window < options.window && !out_of_time && result.iterations < options.max_iterations) continue;
    const auto count = static_cast<double>(std::max<int64_t>(in_window, 1));
    LearnProgress row;
    row.phase = to_string(schedule.objective());
    row.iteration = result.iterations;
    row.max_iterations = options.max_iterations;
    row.loss = loss / count;
    const auto judged = judge();
    step.review_control();
    const ObjectiveValue& averaged = judged.value;
    row.acceptance = averaged.acceptance;
    row.acceptance_bound = acceptance_lower_bound(averaged.symmetric_kl);
    // Variational inference is judged by its own loss: it may well lose acceptance, and modes, on its way.
    const bool best = vi ? row.loss < best_loss : row.acceptance >= result.acceptance;
    if (best) {
      best_loss = row.loss;
      step.keep_average();
      result.acceptance = row.acceptance;
      result.acceptance_bound = row.acceptance_bound;
    }
    row.learning_rate = schedule.rate();
    row.seconds = elapsed();
    row.max_seconds = options.max_seconds;
    result.history.push_back(row);
    observer.on_learn(row);
    const double done = static_cast<double>(result.iterations) / static_cast<double>(options.max_iterations);
    const bool back = schedule.window(row.loss, row.acceptance, averaged.symmetric_kl, done);
    if (back && !vi) {  // a smaller rate improves on the best there was, not on where noise has led meanwhile
      step.roll_back();
      schedule.warm_up(result.iterations);
    }
    loss = 0;
    in_window = 0;
    if (out_of_time) result.stopped = "max-seconds";
    if (!vi && pays_no_more(judged)) result.stopped = "wanted-ess";
    if (good(judged)) result.stopped = "target-acceptance";
    if (schedule.finished()) result.stopped = "converged";
    if (result.stopped != "max-iterations") break;
    if (store && store->due()) save();
  }
  step.use_best();
  result.seconds = elapsed();
  return result;
}

}  // namespace hastings
