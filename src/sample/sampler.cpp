#include "hastings/sample/sampler.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "hastings/core/error.h"
#include "hastings/core/fields.h"
#include "hastings/core/parallel.h"
#include "hastings/core/registry.h"
#include "local_moves.h"
#include "sample_chain.h"

namespace hastings {
const std::vector<LocalMovesEntry>& local_moves() {
  static const std::vector<LocalMovesEntry> all = {
      {LocalMoves::kAuto, "auto", "hmc where independent moves alone would stick"},
      {LocalMoves::kNone, "none", "independent moves alone"},
      {LocalMoves::kRandomWalk, "rw", "random walk"},
      {LocalMoves::kMala, "mala", "Langevin"},
      {LocalMoves::kHmc, "hmc", "Hamiltonian"},
      {LocalMoves::kMixture, "mixture", "random walk inside the proposal"}};
  return all;
}

std::string to_string(LocalMoves moves) { return entry_of(local_moves(), moves).name; }
void parse(const std::string& name, LocalMoves& moves) { moves = find_entry(local_moves(), "local_moves", name).kind; }

Sampler::Sampler(const Target& target, const Proposal& proposal, const SampleOptions& options) : options_(options) {
  options_.validate();
  {
    const SingleThreaded single;
    local_ = make_local_moves(target, proposal, options_);
  }
  for (int c = 0; c < options_.chains; ++c)
    chains_.push_back(std::make_unique<SampleChain>(target, proposal, options_, local_.get(), c));
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
    SampleChain& chain = *chains_[static_cast<size_t>(c)];
    chain.advance_to(draws, sink, [&](const SampleChain& now) {
      observer.on_sample({static_cast<int>(c), options_.chains, now.kept(), options_.draws, now.acceptance()});
    });
    chain.set_seconds(chain.report().seconds + std::chrono::duration<double>(Clock::now() - chain_begin).count());
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
  for (size_t c = 0; c < chains_.size(); ++c) state.merge(to_tensors(*chains_[c], fmt::format("chain.{}.", c)));
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
      from_tensors(state, *chains_[c], fmt::format("chain.{}.", c));
      chains_[c]->resume();
      report_.chains[c] = chains_[c]->report();
    }
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    throw DataError("the stored state of the chains is damaged");
  }
}

void Portions::took(int64_t draws, double seconds) {
  constexpr double kWanted = 0.2;
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
  if (o.local_moves == LocalMoves::kAuto) {
    o.local_moves = acceptance < kSticks ? LocalMoves::kHmc : LocalMoves::kNone;
    if (o.local_moves == LocalMoves::kHmc) o.local_fraction = std::max(o.local_fraction, 0.5);
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
