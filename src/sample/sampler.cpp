#include "hastings/sample/sampler.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <functional>

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

// Consecutive steps of a chain.
struct Steps {
  Tensor x, log_prob, log_weight, stat;
};

// Hands on the steps to keep.
class Keeper {
 public:
  Keeper(int chain, const SampleOptions& options) : chain_(chain), options_(options) {}

  int64_t steps() const { return step_; }
  void set_steps(int64_t steps) { step_ = steps; }
  bool warm() const { return step_ >= options_.warmup; }
  int64_t kept() const { return warm() ? (step_ - options_.warmup) / options_.thin : 0; }
  // Steps still to do for so many kept draws, or, first, for the warm-up.
  int64_t steps_left(int64_t draws) const {
    return warm() ? options_.warmup + draws * options_.thin - step_ : options_.warmup - step_;
  }

  void take(const Steps& s, DrawSink& sink) {
    const int64_t n = s.x.size(0);
    DrawBlock block;
    block.chain = chain_;
    block.warmup = !warm();
    block.first = block.warmup ? step_ : kept();
    // Step s (counted after warm-up, from 1) is kept when s is a multiple of thin.
    const int64_t thin = block.warmup ? 1 : options_.thin;
    const int64_t first = block.warmup ? 0 : thin - 1 - (step_ - options_.warmup) % thin;
    step_ += n;
    if (first >= n) return;
    auto kept_rows = [&](const Tensor& t) { return t.slice(0, first, n, thin).contiguous(); };
    block.x = kept_rows(s.x);
    block.log_prob = kept_rows(s.log_prob);
    block.log_weight = kept_rows(s.log_weight);
    block.accept_stat = kept_rows(s.stat);
    sink.on_draws(block);
  }

 private:
  int chain_;
  const SampleOptions& options_;
  int64_t step_ = 0;
};

struct Candidates {
  Tensor x, log_prob, log_weight;
};

// A local kernel of the given step, scaled to the proposal's own spread.
std::unique_ptr<LocalKernel> make_local(const Proposal& proposal, const SampleOptions& options, const Tensor& factor,
                                        double step) {
  if (options.local_moves == "rw") return make_random_walk(factor, step);
  if (options.local_moves == "mala") return make_mala(factor, step);
  if (options.local_moves == "hmc") return make_hmc(factor, step, options.leapfrog_steps);
  return make_random_walk_mixture(draws_of(proposal), 1 - options.local_fraction, factor, step);
}

// The usual scaling with dimension, halved while a short trial accepts too little: where the proposal is wider than the
// target somewhere, its spread is no guide. Decided once, before any draw, from streams of its own.
std::unique_ptr<LocalKernel> tuned_local(const Target& target, const Proposal& proposal, const SampleOptions& options) {
  constexpr int64_t kRows = 64;
  constexpr int kSteps = 8, kHalvings = 8;
  constexpr double kWanted = 0.5;
  Stream stream(options.seed, Phase::kLocalTuning, 0, Purpose::kStart);
  const Tensor x = proposal.sample(2048, stream).x;
  const Tensor factor = moments(x).factor;
  if (options.local_step > 0) return make_local(proposal, options, factor, options.local_step);
  const auto d = static_cast<double>(target.dim());
  const bool gradient = options.local_moves == "mala" || options.local_moves == "hmc";
  double step = options.local_moves == "mala"  ? 1.65 / std::pow(d, 1.0 / 6)
                : options.local_moves == "hmc" ? 0.8 / std::pow(d, 0.25)
                                               : 2.38 / std::sqrt(d);
  if (!gradient) return make_local(proposal, options, factor, step);
  // Trial states: draws of the proposal, moved by independent steps.
  const Density density = density_of(target);
  Tensor at, weight;
  for (int i = 0; i < 30; ++i) {
    const Draws draws = proposal.sample(kRows, stream);
    const Tensor w = (target.log_prob(draws.x) - draws.log_q).nan_to_num(-1e300, -1e300, -1e300);
    if (i == 0) {
      at = draws.x;
      weight = w;
      continue;
    }
    const Tensor accepted = accept_mask(stream.uniform({kRows}).log(), log_ratio(w, weight));
    at = at::where(accepted.unsqueeze(1), draws.x, at);
    weight = at::where(accepted, w, weight);
  }
  for (int halving = 0;; ++halving) {
    auto kernel = make_local(proposal, options, factor, step);
    LocalState state = kernel->init(at.clone(), density);
    double accepted = 0;
    for (int i = 0; i < kSteps; ++i)
      accepted += kernel->step(state, density, stream, stream).accept_prob.mean().item<double>() / kSteps;
    if (accepted >= kWanted || halving == kHalvings) return kernel;
    step /= 2;
  }
}

}  // namespace

// One chain: its streams, its state, its report. Candidates come in blocks; a block may be used up in several calls.
class Sampler::Chain {
 public:
  Chain(const Target& target, const Proposal& proposal, const SampleOptions& options, const LocalKernel* kernel,
        int chain)
      : target_(target),
        proposal_(proposal),
        options_(options),
        kernel_(kernel),
        density_(density_of(target)),
        keeper_(chain, options),
        streams_{options.seed, Phase::kChain, static_cast<uint64_t>(chain)} {}

  void advance_to(int64_t draws, DrawSink& sink, const std::function<void(const Chain&)>& tell) {
    if (!x_.defined()) start();
    int64_t since = 0;
    for (int64_t left; (left = keeper_.steps_left(draws)) > 0 || !keeper_.warm();) {
      if (at_ == kBlock) next_block();
      const int64_t n = std::min(left, kBlock - at_);
      const Steps steps = kernel_ ? mixed(n) : independent(n);
      at_ += n;
      keeper_.take(steps, sink);
      since += n;
      if (since < kReportEvery) continue;
      since = 0;
      tell(*this);
    }
    tell(*this);
  }

  const Keeper& keeper() const { return keeper_; }
  const ChainReport& report() const { return report_; }
  void set_seconds(double seconds) { report_.seconds = seconds; }
  void add_seconds(double seconds) { report_.seconds += seconds; }
  double acceptance() const {
    return report_.scan.acceptance_sum / static_cast<double>(std::max<int64_t>(report_.steps, 1));
  }

  void save(const std::string& prefix, std::map<std::string, Tensor>& state) const {
    state[prefix + "x"] = x_.clone();
    state[prefix + "numbers"] =
        at::tensor({log_prob_.item<double>(), state_.log_weight, report_.scan.acceptance_sum}, at::kDouble);
    std::vector<int64_t> counts = {
        keeper_.steps(),          at_,           state_.run,          report_.scan.accepted, report_.scan.non_finite,
        report_.scan.longest_run, report_.steps, report_.local_steps, report_.local_accepted};
    for (const uint64_t position :
         {noise_at_, uniforms_at_, choice_at_, local_noise_.position(), local_uniforms_.position()})
      counts.push_back(static_cast<int64_t>(position));
    state[prefix + "counts"] = at::tensor(counts, at::kLong);
    state[prefix + "log_weights"] = at::tensor(report_.log_weights, at::kDouble);
  }

  void load(const std::string& prefix, const std::map<std::string, Tensor>& state) {
    x_ = state.at(prefix + "x").clone();
    const Tensor numbers = state.at(prefix + "numbers"), counts = state.at(prefix + "counts");
    if (numbers.numel() != 3 || counts.numel() != 14 || x_.numel() != target_.dim())
      throw DataError("the stored state of the chains is damaged");
    log_prob_ = numbers.narrow(0, 0, 1).clone();
    state_.log_weight = numbers[1].item<double>();
    report_.scan.acceptance_sum = numbers[2].item<double>();
    const int64_t* c = counts.data_ptr<int64_t>();
    keeper_.set_steps(c[0]);
    state_.run = c[2];
    report_.scan.accepted = c[3];
    report_.scan.non_finite = c[4];
    report_.scan.longest_run = c[5];
    report_.steps = c[6];
    report_.local_steps = c[7];
    report_.local_accepted = c[8];
    const auto weights = doubles(state.at(prefix + "log_weights"));
    report_.log_weights.assign(weights.begin(), weights.end());
    noise_.seek(static_cast<uint64_t>(c[9]));
    uniforms_.seek(static_cast<uint64_t>(c[10]));
    choice_.seek(static_cast<uint64_t>(c[11]));
    local_noise_.seek(static_cast<uint64_t>(c[12]));
    local_uniforms_.seek(static_cast<uint64_t>(c[13]));
    next_block();  // the one that was in use
    at_ = c[1];
    if (kernel_) local_ = kernel_->init(x_, density_);
  }

 private:
  Candidates draw(int64_t n) {
    const Draws draws = proposal_.sample(n, noise_);
    const Tensor log_prob = target_.log_prob(draws.x);
    return {draws.x, log_prob, log_prob - draws.log_q};
  }

  // The first state: the first candidate with a finite weight.
  void start() {
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
        if (kernel_) local_ = kernel_->init(x_, density_);
        return;
      }
    }
    throw NumericalError(
        fmt::format("target {}: none of {} candidates has a finite log density", target_.name(), kBlocks * kBlock));
  }

  bool always_local() const { return options_.local_moves == "mixture"; }

  void next_block() {
    noise_at_ = noise_.position();
    uniforms_at_ = uniforms_.position();
    choice_at_ = choice_.position();
    at_ = 0;
    if (!always_local()) block_ = draw(kBlock);
    log_u_ = uniforms_.uniform({kBlock}).log_();
    if (kernel_) chosen_ = choice_.uniform({kBlock});
  }

  Steps independent(int64_t n) {
    const auto begin = static_cast<size_t>(at_), count = static_cast<size_t>(n);
    const Tensor held = at::empty({n}, at::kLong), stat = at::empty({n}, at::kDouble);
    ScanInfo info = begun();
    const Tensor before = at::scalar_tensor(state_.log_weight, at::kDouble).view({1});
    scan(doubles(block_.log_weight).subspan(begin, count), doubles(log_u_).subspan(begin, count), state_, info,
         {held.data_ptr<int64_t>(), count}, doubles(stat));
    if (keeper_.warm()) add(info, n, n);
    const Tensor row = held + 1;  // 0 is the state that came in
    auto chosen = [&](const Tensor& first, const Tensor& rest) {
      return at::cat({first, rest.narrow(0, at_, n)}, 0).index_select(0, row);
    };
    Steps out{chosen(x_, block_.x), chosen(log_prob_, block_.log_prob), chosen(before, block_.log_weight), stat};
    x_ = out.x.narrow(0, n - 1, 1).clone();
    log_prob_ = out.log_prob.narrow(0, n - 1, 1).clone();
    return out;
  }

  // Steps one by one where some are local. Which ones is decided beforehand, by a stream of its own.
  Steps mixed(int64_t n) {
    Steps out{at::empty({n, target_.dim()}, at::kDouble), at::empty({n}, at::kDouble), at::empty({n}, at::kDouble),
              at::empty({n}, at::kDouble)};
    double *lps = out.log_prob.data_ptr<double>(), *ws = out.log_weight.data_ptr<double>();
    double* stats = out.stat.data_ptr<double>();
    ScanInfo info = begun();
    int64_t independent = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row = at_ + i;
      if (always_local() || chosen_.data_ptr<double>()[row] < options_.local_fraction) {
        const LocalInfo step = kernel_->step(local_, density_, local_noise_, local_uniforms_);
        const bool moved = step.accepted.item<bool>();
        stats[i] = step.accept_prob.item<double>();
        if (keeper_.warm()) {
          ++report_.local_steps;
          report_.local_accepted += moved;
        }
        if (moved) state_.log_weight = (local_.log_prob - proposal_.log_prob(local_.x)).item<double>();
        state_.run = moved ? 1 : state_.run + 1;
        info.longest_run = std::max(info.longest_run, state_.run);
      } else {
        int64_t held;
        const auto at = static_cast<size_t>(row);
        scan(doubles(block_.log_weight).subspan(at, 1), doubles(log_u_).subspan(at, 1), state_, info, {&held, 1},
             {stats + i, 1});
        ++independent;
        if (held == 0) local_ = kernel_->init(block_.x.narrow(0, row, 1), density_);
      }
      out.x.narrow(0, i, 1).copy_(local_.x);
      lps[i] = local_.log_prob.item<double>();
      ws[i] = state_.log_weight;
    }
    if (keeper_.warm()) add(info, independent, n);
    x_ = local_.x.clone();
    log_prob_ = local_.log_prob.clone();
    return out;
  }

  // Sums go on where they are, so that their rounding does not depend on how a run is cut into portions.
  ScanInfo begun() const {
    ScanInfo info;
    info.acceptance_sum = report_.scan.acceptance_sum;
    return info;
  }

  // `steps` independent ones among the next n candidates of the block.
  void add(const ScanInfo& info, int64_t steps, int64_t n) {
    report_.scan.accepted += info.accepted;
    report_.scan.non_finite += info.non_finite;
    report_.scan.acceptance_sum = info.acceptance_sum;
    report_.scan.longest_run = std::max(report_.scan.longest_run, info.longest_run);
    report_.steps += steps;
    if (!block_.log_weight.defined() || report_.log_weights.size() >= kKeptWeights) return;
    const size_t kept = std::min(static_cast<size_t>(n), kKeptWeights - report_.log_weights.size());
    const auto w = doubles(block_.log_weight).subspan(static_cast<size_t>(at_), kept);
    report_.log_weights.insert(report_.log_weights.end(), w.begin(), w.end());
  }

  const Target& target_;
  const Proposal& proposal_;
  const SampleOptions& options_;
  const LocalKernel* kernel_;  // null: independent steps alone
  Density density_;
  Keeper keeper_;
  Streams streams_;
  Stream noise_ = streams_(Purpose::kProposal), uniforms_ = streams_(Purpose::kAccept),
         choice_ = streams_(Purpose::kChoice), local_noise_ = streams_(Purpose::kLocal),
         local_uniforms_ = streams_(Purpose::kLocalAccept);
  uint64_t noise_at_ = 0, uniforms_at_ = 0, choice_at_ = 0;  // where the block in use began
  Candidates block_;
  Tensor log_u_, chosen_;
  int64_t at_ = kBlock;  // candidates of the block that are used up
  Tensor x_, log_prob_;  // [1, dim], [1]
  LocalState local_;
  ScanState state_;
  ChainReport report_;
};

Sampler::Sampler(const Target& target, const Proposal& proposal, const SampleOptions& options)
    : target_(target), proposal_(proposal), options_(options) {
  options_.validate();
  if (options_.local_moves != "none") {
    const at::NoGradGuard no_grad;
    const SingleThreaded single;
    kernel_ = tuned_local(target, proposal, options_);
  }
  for (int c = 0; c < options_.chains; ++c)
    chains_.push_back(std::make_unique<Chain>(target_, proposal_, options_, kernel_.get(), c));
  report_.chains.resize(chains_.size());
}

Sampler::~Sampler() = default;

void Sampler::advance_to(int64_t draws, DrawSink& sink, Observer& observer) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const SingleThreaded single;
  parallel_tasks(options_.chains, options_.threads, [&](int64_t c) {
    const at::NoGradGuard no_grad;
    const auto chain_begin = Clock::now();
    Chain& chain = *chains_[static_cast<size_t>(c)];
    chain.advance_to(draws, sink, [&](const Chain& now) {
      observer.on_sample({static_cast<int>(c), options_.chains, now.keeper().kept(), options_.draws, now.acceptance()});
    });
    chain.add_seconds(std::chrono::duration<double>(Clock::now() - chain_begin).count());
    report_.chains[static_cast<size_t>(c)] = chain.report();
  });
  draws_ = std::max(draws_, draws);
  report_.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
}

std::map<std::string, Tensor> Sampler::state() const {
  std::map<std::string, Tensor> state;
  state["draws"] = at::tensor({draws_}, at::kLong);
  // Apart from the rest: the only numbers that differ when a run is repeated.
  std::vector<double> seconds = {report_.seconds};
  for (const auto& chain : chains_) seconds.push_back(chain->report().seconds);
  state["seconds"] = at::tensor(seconds, at::kDouble);
  for (size_t c = 0; c < chains_.size(); ++c) chains_[c]->save(fmt::format("chain.{}.", c), state);
  return state;
}

void Sampler::restore(const std::map<std::string, Tensor>& state) {
  const at::NoGradGuard no_grad;
  const SingleThreaded single;
  try {
    draws_ = state.at("draws").item<int64_t>();
    const Tensor seconds = state.at("seconds");
    if (seconds.numel() != static_cast<int64_t>(chains_.size()) + 1) throw std::out_of_range("seconds");
    report_.seconds = seconds[0].item<double>();
    for (size_t c = 0; c < chains_.size(); ++c) {
      chains_[c]->set_seconds(seconds[static_cast<int64_t>(c) + 1].item<double>());
      chains_[c]->load(fmt::format("chain.{}.", c), state);
      report_.chains[c] = chains_[c]->report();
    }
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    throw DataError("the stored state of the chains is damaged");
  }
}

void Portions::took(int64_t draws, double seconds) {
  constexpr double kWanted = 0.5;
  const double factor = std::clamp(kWanted / std::max(seconds, 1e-3), 0.5, 4.0);
  size_ = std::max<int64_t>(16, static_cast<int64_t>(factor * static_cast<double>(draws)));
}

void SampleOptions::validate() const {
  if (chains < 1 || chains > 100000) throw ConfigError(fmt::format("chains is {}, must be from 1 to 100000", chains));
  if (draws < 1) throw ConfigError(fmt::format("draws is {}, must be at least 1", draws));
  if (warmup < 0 || warmup > int64_t{1} << 40)
    throw ConfigError(fmt::format("warmup is {}, must be from 0 to 2^40", warmup));
  if (thin < 1) throw ConfigError(fmt::format("thin is {}, must be at least 1", thin));
  if (draws > (int64_t{1} << 40) / thin) throw ConfigError(fmt::format("draws times thin is above 2^40"));
  if (threads < 0) throw ConfigError(fmt::format("threads is {}, must not be negative", threads));
  if (local_moves != "none" && local_moves != "rw" && local_moves != "mala" && local_moves != "hmc" &&
      local_moves != "mixture" && local_moves != "auto") {
    throw ConfigError(fmt::format("local_moves '{}': must be auto, none, rw, mala, hmc or mixture", local_moves));
  }
  if (!(local_fraction > 0 && local_fraction < 1)) {
    throw ConfigError(fmt::format("local_fraction is {}, must be between 0 and 1", local_fraction));
  }
  if (!(local_step >= 0) || !std::isfinite(local_step))
    throw ConfigError(fmt::format("local_step is {}, must be finite and not negative", local_step));
  if (leapfrog_steps < 1 || leapfrog_steps > 100000)
    throw ConfigError(fmt::format("leapfrog_steps is {}, must be from 1 to 100000", leapfrog_steps));
}

MemorySink::MemorySink(int chains, int64_t n, int64_t dim)
    : draws(at::empty({chains, n, dim}, at::kDouble)),
      log_prob(at::empty({chains, n}, at::kDouble)),
      log_weight(at::empty({chains, n}, at::kDouble)),
      accept_stat(at::empty({chains, n}, at::kDouble)) {}

void MemorySink::on_draws(const DrawBlock& block) {
  if (block.warmup) return;
  const int64_t n = block.x.size(0);
  draws[block.chain].narrow(0, block.first, n).copy_(block.x);
  log_prob[block.chain].narrow(0, block.first, n).copy_(block.log_prob);
  log_weight[block.chain].narrow(0, block.first, n).copy_(block.log_weight);
  accept_stat[block.chain].narrow(0, block.first, n).copy_(block.accept_stat);
}

SampleOptions SampleOptions::resolved(double acceptance) const {
  constexpr double kSticks = 0.2;  // below this, chains of independent moves alone stay too long where they are
  SampleOptions o = *this;
  if (o.local_moves == "auto") {
    o.local_moves = acceptance < kSticks ? "hmc" : "none";
    if (o.local_moves == "hmc") o.local_fraction = std::max(o.local_fraction, 0.5);
  }
  return o;
}

SampleReport sample(const Target& target, const Proposal& proposal, const SampleOptions& options, DrawSink& sink,
                    Observer& observer) {
  Sampler sampler(target, proposal, options);
  Portions portions;
  while (sampler.draws() < options.draws) {
    if (observer.should_stop()) throw Interrupted("stopped while sampling");
    const int64_t before = sampler.draws();
    const double seconds = sampler.report().seconds;
    sampler.advance_to(portions.next(before, options.draws), sink, observer);
    portions.took(sampler.draws() - before, sampler.report().seconds - seconds);
  }
  return sampler.report();
}

}  // namespace hastings
