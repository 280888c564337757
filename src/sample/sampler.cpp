#include "hastings/sample/sampler.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "hastings/core/error.h"
#include "hastings/core/moments.h"
#include "hastings/core/parallel.h"
#include "hastings/kernel/local.h"
#include "hastings/sample/density.h"

namespace hastings {
namespace {

constexpr int64_t kBlock = 512;         // candidates at a time: fixed, so that results are
constexpr size_t kKeptWeights = 25000;  // candidates' weights kept a chain
constexpr int64_t kReportEvery = 64 * kBlock;

std::span<double> doubles(const Tensor& t) { return {t.data_ptr<double>(), static_cast<size_t>(t.numel())}; }

// Collects consecutive steps and hands on the ones to keep.
class Keeper {
 public:
  Keeper(int chain, const SampleOptions& options, DrawSink& sink) : chain_(chain), options_(options), sink_(sink) {}

  int64_t steps_left() const { return options_.warmup + options_.draws * options_.thin - step_; }
  bool warm() const { return step_ >= options_.warmup; }
  int64_t kept() const { return kept_; }

  void take(const Tensor& x, const Tensor& log_prob, const Tensor& log_weight, const Tensor& stat) {
    const int64_t n = x.size(0), after = options_.warmup - step_;  // rows of warm-up at the front
    step_ += n;
    // Step s (counted after warm-up, from 1) is kept when s is a multiple of thin.
    int64_t first = std::max<int64_t>(after, 0);
    if (options_.thin > 1) {
      const int64_t s = step_ - n + first - options_.warmup;  // steps after warm-up before row `first`
      first += options_.thin - 1 - s % options_.thin;
    }
    if (first >= n) return;
    DrawBlock block;
    block.chain = chain_;
    block.first = kept_;
    auto kept = [&](const Tensor& t) { return t.slice(0, first, n, options_.thin).contiguous(); };
    block.x = kept(x);
    block.log_prob = kept(log_prob);
    block.log_weight = kept(log_weight);
    block.accept_stat = kept(stat);
    kept_ += block.x.size(0);
    sink_.on_draws(block);
  }

 private:
  int chain_;
  const SampleOptions& options_;
  DrawSink& sink_;
  int64_t step_ = 0, kept_ = 0;
};

struct Candidates {
  Tensor x, log_prob, log_weight;
};

// One chain: its streams, its state, its report.
class Chain {
 public:
  Chain(const Target& target, const Proposal& proposal, const SampleOptions& options, int chain)
      : target_(target),
        proposal_(proposal),
        noise_(options.seed, static_cast<uint64_t>(chain), Purpose::kProposal),
        uniforms_(options.seed, static_cast<uint64_t>(chain), Purpose::kAccept) {}

  Candidates draw(int64_t n) {
    const Draws draws = proposal_.sample(n, noise_);
    const Tensor log_prob = target_.log_prob(draws.x);
    return {draws.x, log_prob, log_prob - draws.log_q};
  }

  // The first state: the first candidate with a finite weight.
  void start(const std::string& target_name) {
    constexpr int kBlocks = 20;
    for (int block = 0; block < kBlocks; ++block) {
      const Candidates c = draw(kBlock);
      const auto w = doubles(c.log_weight);
      for (size_t i = 0; i < w.size(); ++i) {
        if (!std::isfinite(w[i])) continue;
        const auto row = static_cast<int64_t>(i);
        x_ = c.x.narrow(0, row, 1).clone();
        log_prob_ = c.log_prob.narrow(0, row, 1).clone();
        state_.log_weight = w[i];
        state_.run = 1;
        return;
      }
    }
    throw NumericalError(
        fmt::format("target {}: none of {} candidates has a finite log density", target_name, kBlocks * kBlock));
  }

  void independent_block(Keeper& keeper, ChainReport& report) {
    const int64_t n = std::min(kBlock, keeper.steps_left());
    const Candidates c = draw(kBlock);
    const Tensor log_u = uniforms_.uniform({kBlock}).log_();
    const Tensor held = at::empty({n}, at::kLong), stat = at::empty({n}, at::kDouble);
    ScanInfo info;
    const Tensor before = at::scalar_tensor(state_.log_weight, at::kDouble).view({1});
    scan(doubles(c.log_weight).first(static_cast<size_t>(n)), doubles(log_u).first(static_cast<size_t>(n)), state_,
         info, {held.data_ptr<int64_t>(), static_cast<size_t>(n)}, doubles(stat));
    if (keeper.warm()) add(info, n, c, report);
    const Tensor row = held + 1;  // 0 is the state that came in
    const Tensor x = at::cat({x_, c.x}, 0).index_select(0, row);
    const Tensor log_prob = at::cat({log_prob_, c.log_prob}, 0).index_select(0, row);
    const Tensor weight = at::cat({before, c.log_weight}, 0).index_select(0, row);
    x_ = x.narrow(0, n - 1, 1).clone();
    log_prob_ = log_prob.narrow(0, n - 1, 1).clone();
    keeper.take(x, log_prob, weight, stat);
  }

  // Steps one by one where some are local. Which ones is decided beforehand, by a stream of its own.
  void mixed_block(Keeper& keeper, ChainReport& report, const LocalKernel& kernel, const Density& density,
                   double fraction, Stream& choice, Stream& local_noise, Stream& local_uniforms, bool always_local) {
    const int64_t n = std::min(kBlock, keeper.steps_left());
    Candidates c;
    if (!always_local) c = draw(kBlock);
    const Tensor u = uniforms_.uniform({kBlock}).log_(), local = choice.uniform({kBlock});
    const Tensor xs = at::empty({n, target_.dim()}, at::kDouble), lps = at::empty({n}, at::kDouble);
    const Tensor ws = at::empty({n}, at::kDouble), stats = at::empty({n}, at::kDouble);
    LocalState state = kernel.init(x_, density);
    bool stale = false;  // does log_weight still belong to another point?
    ScanInfo info;
    int64_t independent = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (always_local || local.data_ptr<double>()[i] < fraction) {
        const LocalInfo step = kernel.step(state, density, local_noise, local_uniforms);
        const bool moved = step.accepted.item<bool>();
        stats.data_ptr<double>()[i] = step.accept_prob.item<double>();
        if (keeper.warm()) {
          ++report.local_steps;
          report.local_accepted += moved;
        }
        stale |= moved;
        state_.run = moved ? 1 : state_.run + 1;
        info.longest_run = std::max(info.longest_run, state_.run);
      } else {
        if (stale) state_.log_weight = weight_of(state);
        stale = false;
        int64_t held;
        const auto at = static_cast<size_t>(i);
        scan(doubles(c.log_weight).subspan(at, 1), doubles(u).subspan(at, 1), state_, info, {&held, 1},
             doubles(stats).subspan(at, 1));
        ++independent;
        if (held == 0) state = kernel.init(c.x.narrow(0, i, 1), density);
      }
      xs.narrow(0, i, 1).copy_(state.x);
      lps.data_ptr<double>()[i] = state.log_prob.item<double>();
      if (stale) {
        state_.log_weight = weight_of(state);
        stale = false;
      }
      ws.data_ptr<double>()[i] = state_.log_weight;
    }
    if (keeper.warm()) add(info, independent, c, report);
    x_ = state.x.clone();
    log_prob_ = state.log_prob.clone();
    keeper.take(xs, lps, ws, stats);
  }

 private:
  double weight_of(const LocalState& state) const {
    return (state.log_prob - proposal_.log_prob(state.x)).item<double>();
  }
  static void add(const ScanInfo& info, int64_t steps, const Candidates& c, ChainReport& report) {
    report.scan.accepted += info.accepted;
    report.scan.non_finite += info.non_finite;
    report.scan.acceptance_sum += info.acceptance_sum;
    report.scan.longest_run = std::max(report.scan.longest_run, info.longest_run);
    report.steps += steps;
    if (!c.log_weight.defined() || report.log_weights.size() >= kKeptWeights) return;
    const auto w = doubles(c.log_weight);
    report.log_weights.insert(report.log_weights.end(), w.begin(), w.end());
  }

  const Target& target_;
  const Proposal& proposal_;
  Stream noise_, uniforms_;
  Tensor x_, log_prob_;  // [1, dim], [1]
  ScanState state_;
};

// A local kernel scaled to the proposal's own spread, measured once from its draws.
std::unique_ptr<LocalKernel> make_local(const Target& target, const Proposal& proposal, const SampleOptions& options) {
  Stream stream(options.seed, 0, Purpose::kStart);
  const Tensor x = proposal.sample(2048, stream).x;
  const auto d = static_cast<double>(target.dim());
  const Tensor factor = moments(x).factor;
  const double given = options.local_step;
  if (options.local_moves == "rw") return make_random_walk(factor, given > 0 ? given : 2.38 / std::sqrt(d));
  if (options.local_moves == "mala") return make_mala(factor, given > 0 ? given : 1.65 / std::pow(d, 1.0 / 6));
  if (options.local_moves == "hmc")
    return make_hmc(factor, given > 0 ? given : 0.8 / std::pow(d, 0.25), options.leapfrog_steps);
  IndependentDraws independent;
  independent.draw = [&proposal](int64_t n, RowStreams noise) {
    const Draws draws = proposal.from_noise(noise.normal(n, proposal.noise_dim()));
    return std::pair<Tensor, Tensor>(draws.x, draws.log_q);
  };
  independent.log_prob = [&proposal](const Tensor& at_x) { return proposal.log_prob(at_x); };
  return make_random_walk_mixture(independent, 1 - options.local_fraction, factor,
                                  given > 0 ? given : 2.38 / std::sqrt(d));
}

}  // namespace

void SampleOptions::validate() const {
  if (chains < 1 || chains > 100000) throw ConfigError(fmt::format("chains is {}, must be from 1 to 100000", chains));
  if (draws < 1) throw ConfigError(fmt::format("draws is {}, must be at least 1", draws));
  if (warmup < 0) throw ConfigError(fmt::format("warmup is {}, must not be negative", warmup));
  if (thin < 1) throw ConfigError(fmt::format("thin is {}, must be at least 1", thin));
  if (draws > (int64_t{1} << 40) / thin) throw ConfigError(fmt::format("draws times thin is above 2^40"));
  if (threads < 0) throw ConfigError(fmt::format("threads is {}, must not be negative", threads));
  if (local_moves != "none" && local_moves != "rw" && local_moves != "mala" && local_moves != "hmc" &&
      local_moves != "mixture") {
    throw ConfigError(fmt::format("local_moves '{}': must be none, rw, mala, hmc or mixture", local_moves));
  }
  if (!(local_fraction > 0 && local_fraction < 1)) {
    throw ConfigError(fmt::format("local_fraction is {}, must be between 0 and 1", local_fraction));
  }
  if (!(local_step >= 0) || !std::isfinite(local_step))
    throw ConfigError(fmt::format("local_step is {}, must not be negative", local_step));
  if (leapfrog_steps < 1) throw ConfigError(fmt::format("leapfrog_steps is {}, must be at least 1", leapfrog_steps));
}

MemorySink::MemorySink(int chains, int64_t n, int64_t dim)
    : draws(at::empty({chains, n, dim}, at::kDouble)),
      log_prob(at::empty({chains, n}, at::kDouble)),
      log_weight(at::empty({chains, n}, at::kDouble)),
      accept_stat(at::empty({chains, n}, at::kDouble)) {}

void MemorySink::on_draws(const DrawBlock& block) {
  const int64_t n = block.x.size(0);
  draws[block.chain].narrow(0, block.first, n).copy_(block.x);
  log_prob[block.chain].narrow(0, block.first, n).copy_(block.log_prob);
  log_weight[block.chain].narrow(0, block.first, n).copy_(block.log_weight);
  accept_stat[block.chain].narrow(0, block.first, n).copy_(block.accept_stat);
}

SampleReport sample(const Target& target, const Proposal& proposal, const SampleOptions& options, DrawSink& sink,
                    Observer& observer) {
  options.validate();
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const SingleThreaded single;
  SampleReport report;
  report.chains.resize(static_cast<size_t>(options.chains));
  const bool local = options.local_moves != "none", always_local = options.local_moves == "mixture";
  std::unique_ptr<LocalKernel> kernel;
  if (local) {
    const at::NoGradGuard no_grad;
    kernel = make_local(target, proposal, options);
  }
  const Density density = density_of(target);
  parallel_tasks(options.chains, options.threads, [&](int64_t c) {
    const at::NoGradGuard no_grad;
    const auto chain_begin = Clock::now();
    const int id = static_cast<int>(c);
    ChainReport& mine = report.chains[static_cast<size_t>(c)];
    Chain chain(target, proposal, options, id);
    Keeper keeper(id, options, sink);
    const auto row = static_cast<uint64_t>(c);
    Stream choice(options.seed, row, Purpose::kChoice), noise(options.seed, row, Purpose::kLocal);
    Stream local_uniforms(options.seed, row + (uint64_t{1} << 31), Purpose::kLocal);
    chain.start(target.name());
    int64_t since_report = 0;
    while (keeper.steps_left() > 0) {
      if (observer.should_stop()) throw Interrupted("stopped while sampling");
      if (local) {
        chain.mixed_block(keeper, mine, *kernel, density, options.local_fraction, choice, noise, local_uniforms,
                          always_local);
      } else {
        chain.independent_block(keeper, mine);
      }
      since_report += kBlock;
      if (since_report < kReportEvery && keeper.steps_left() > 0) continue;
      since_report = 0;
      const double steps = static_cast<double>(std::max<int64_t>(mine.steps, 1));
      observer.on_sample({id, options.chains, keeper.kept(), options.draws, mine.scan.acceptance_sum / steps});
    }
    mine.seconds = std::chrono::duration<double>(Clock::now() - chain_begin).count();
  });
  report.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return report;
}

}  // namespace hastings
