#include "hastings/learn/learner.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "../core/clock.h"
#include "hastings/core/error.h"
#include "learning.h"

namespace hastings {
namespace {

constexpr double kSettle = 0.4;           // candidates at the end of a window, as a share of those in it
constexpr int64_t kMaxSkippedInRow = 50;  // non-finite steps in a row before learning gives up

}  // namespace

void LearnOptions::validate() const {
  parse_objective(objective);
  if (batch != 0 && (batch < 2 || batch > 1 << 20))
    throw ConfigError(fmt::format("batch is {}, must be from 2 to 1048576", batch));
  if (!(learning_rate >= 0) || !std::isfinite(learning_rate))
    throw ConfigError(fmt::format("learning_rate is {}, must be positive", learning_rate));
  if (max_iterations < 0) throw ConfigError(fmt::format("max_iterations is {}, must not be negative", max_iterations));
  if (!(max_seconds >= 0)) throw ConfigError(fmt::format("max_seconds is {}, must not be negative", max_seconds));
  if (!(target_acceptance >= 0 && target_acceptance <= 1))
    throw ConfigError(fmt::format("target_acceptance is {}, must be from 0 to 1", target_acceptance));
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

Learning::Learning(const Target& target, FlowProposal& proposal, Population& buffer, const LearnOptions& options,
                   Observer& observer)
    : target_(target),
      proposal_(proposal),
      buffer_(buffer),
      options_(options),
      observer_(observer),
      batch_(std::min(options.batch, buffer.x.size(0))),
      settle_(std::max<int64_t>(1, std::lround(kSettle * static_cast<double>(options.window * batch_) /
                                               static_cast<double>(buffer.x.size(0))))),
      vi_(parse_objective(options.objective) == Objective::kVi),
      step_(target, proposal, options, batch_),
      schedule_(options_, 0, 0),
      good_(options.target_acceptance),
      pays_no_more_(options.wanted_ess, buffer.x.size(0), batch_),
      noise_(options.seed, Phase::kLearn, static_cast<uint64_t>(options.stage), Purpose::kProposal),
      accept_(options.seed, Phase::kLearn, static_cast<uint64_t>(options.stage), Purpose::kAccept),
      rows_(options.seed, Phase::kLearn, static_cast<uint64_t>(options.stage), Purpose::kBatch),
      judge_noise_(options.seed, Phase::kJudge, static_cast<uint64_t>(options.stage), Purpose::kProposal),
      judge_accept_(options.seed, Phase::kJudge, static_cast<uint64_t>(options.stage), Purpose::kAccept) {
  result_.stopped = "max-iterations";
  order_ = rows_.permutation(buffer.x.size(0));
}

void Learning::begin() {
  const Step::Judgement start = judge();  // what learning has to beat
  good_.begin(start.lag_one);
  result_.acceptance = start.value.acceptance;
  result_.acceptance_bound = acceptance_lower_bound(start.value.symmetric_kl);
  schedule_ = Schedule(options_, start.value.acceptance, start.value.symmetric_kl);
  if (vi_) return;
  if (good_(start)) stop("target-acceptance");
  if (pays_no_more_(start, good_.last_lag(), 0)) stop("wanted-ess");
}

void Learning::resume(const TensorMap& stored) {
  from_tensors(stored, *this);
  step_.resume();
}

TensorMap Learning::stored() {
  const double before = std::exchange(stored_seconds_, elapsed());
  TensorMap out = to_tensors(*this);
  stored_seconds_ = before;
  return out;
}

double Learning::elapsed() const { return stored_seconds_ + seconds_since(begin_); }

Step::Judgement Learning::judge() { return step_.judge(buffer_, settle_, {judge_noise_, judge_accept_}); }

Tensor Learning::next_rows() {
  if (at_row_ + batch_ > order_.size(0)) {
    order_ = rows_.permutation(order_.size(0));
    at_row_ = 0;
  }
  at_row_ += batch_;
  return order_.narrow(0, at_row_ - batch_, batch_);
}

void Learning::step() {
  const Tensor rows = next_rows();
  const auto out =
      step_.take(schedule_.objective(), noise_.normal({batch_, proposal_.noise_dim()}), buffer_.x.index_select(0, rows),
                 buffer_.log_prob.index_select(0, rows), schedule_.rate_at(result_.iterations));
  ++result_.iterations;
  result_.non_finite += out.value.non_finite;
  count_skipped(out.skipped);
  if (out.skipped) return;
  if (!vi_) move_buffer(out, rows);
  loss_ += out.value.loss;
  ++in_window_;
}

// The buffer's chains move by the accept rule with the candidates of the step.
void Learning::move_buffer(const Step::Outcome& out, const Tensor& rows) {
  const Tensor moved = accepted_rows(out.candidate, out.state, accept_), to = rows.index_select(0, moved);
  buffer_.x.index_copy_(0, to, out.x.index_select(0, moved));
  buffer_.log_prob.index_copy_(0, to, out.log_prob.index_select(0, moved));
}

void Learning::count_skipped(bool skipped) {
  result_.skipped += skipped;
  skipped_in_row_ = skipped ? skipped_in_row_ + 1 : 0;
  if (skipped_in_row_ < kMaxSkippedInRow) return;
  throw NumericalError(
      fmt::format("target {}: loss or gradient was not finite in {} steps in a row; try a smaller "
                  "--learning-rate, --init anneal, or --precision double",
                  target_.name(), skipped_in_row_));
}

bool Learning::window_ends() const {
  return in_window_ >= options_.window || result_.iterations >= options_.max_iterations || out_of_time();
}

void Learning::end_window() {
  const bool late = out_of_time();
  LearnProgress row;
  row.phase = to_string(schedule_.objective());
  row.iteration = result_.iterations;
  row.max_iterations = options_.max_iterations;
  row.loss = loss_ / static_cast<double>(std::max<int64_t>(in_window_, 1));
  const Step::Judgement judged = judge();
  step_.review_control();
  row.acceptance = judged.value.acceptance;
  row.acceptance_bound = acceptance_lower_bound(judged.value.symmetric_kl);
  keep_if_best(row);
  row.learning_rate = schedule_.rate();
  row.seconds = elapsed();
  row.max_seconds = options_.max_seconds;
  result_.history.push_back(row);
  observer_.on_learn(row);
  const double done = static_cast<double>(result_.iterations) / static_cast<double>(options_.max_iterations);
  const bool back = schedule_.window(row.loss, row.acceptance, judged.value.symmetric_kl, done);
  if (back && !vi_) {  // a smaller rate improves on the best there was, not on where noise has led meanwhile
    step_.roll_back();
    schedule_.warm_up(result_.iterations);
  }
  loss_ = 0;
  in_window_ = 0;
  stop_if_due(judged, late);
}

// Variational inference is judged by its own loss: it may well lose acceptance, and modes, on its way.
void Learning::keep_if_best(const LearnProgress& row) {
  if (vi_ ? !(row.loss < best_loss_) : !(row.acceptance >= result_.acceptance)) return;
  best_loss_ = row.loss;
  step_.keep_average();
  result_.acceptance = row.acceptance;
  result_.acceptance_bound = row.acceptance_bound;
}

void Learning::stop_if_due(const Step::Judgement& judged, bool late) {
  if (late) stop("max-seconds");
  if (!vi_ && pays_no_more_(judged, good_.last_lag(), result_.iterations)) stop("wanted-ess");
  if (good_(judged)) stop("target-acceptance");
  if (schedule_.finished()) stop("converged");
}

LearnResult Learning::result() {
  step_.use_best();
  result_.seconds = elapsed();
  return std::move(result_);
}

LearnResult learn(const Target& target, FlowProposal& proposal, Population& buffer, const LearnOptions& given,
                  Observer& observer, LearnStore* store) {
  given.validate();
  Learning learning(target, proposal, buffer, given.resolved(""), observer);
  const TensorMap stored = store ? store->load() : TensorMap();
  if (stored.empty()) {
    learning.begin();
  } else {
    learning.resume(stored);
  }
  while (!learning.finished()) {
    if (observer.should_stop()) throw Interrupted("stopped while learning");
    learning.step();
    if (!learning.window_ends()) continue;
    learning.end_window();
    if (store && !learning.finished() && store->due()) store->save(learning.stored());
  }
  return learning.result();
}

}  // namespace hastings
