#include "hastings/learn/learner.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "../core/clock.h"
#include "hastings/core/error.h"
#include "schedule.h"
#include "state.h"
#include "step.h"

namespace hastings {
namespace {

constexpr double kSettle = 0.4;           // candidates at the end of a window, as a share of those in it
constexpr double kLagOne = 0.04;          // autocorrelation at lag one that is as good as none (the paper's is 0.05)
constexpr double kUsable = 0.8;           // acceptance below which no proposal is left as it is
constexpr int64_t kStartCost = 16;        // evaluations of the start, for each point of the buffer
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

LearnResult learn(const Target& target, FlowProposal& proposal, Population& buffer, const LearnOptions& given,
                  Observer& observer, LearnStore* store) {
  given.validate();
  const LearnOptions options = given.resolved("");
  const auto begin = std::chrono::steady_clock::now();
  double before = 0;  // seconds of an earlier process
  auto elapsed = [&] { return before + seconds_since(begin); };
  const int64_t size = buffer.x.size(0), batch = std::min(options.batch, size);
  const auto stage = static_cast<uint64_t>(options.stage);
  const Streams learning{options.seed, Phase::kLearn, stage}, judging{options.seed, Phase::kJudge, stage};
  Stream noise = learning(Purpose::kProposal), uniforms = learning(Purpose::kAccept), rows = learning(Purpose::kBatch);
  Stream judge_noise = judging(Purpose::kProposal), judge_uniforms = judging(Purpose::kAccept);
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
