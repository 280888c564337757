#include "sample_chain.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace hastings {
namespace {

constexpr int64_t kBlock = IndependentChain::kBlock;
constexpr size_t kKeptWeights = 25000;  // candidates' weights kept a chain
constexpr int64_t kReportEvery = 64 * kBlock;

}  // namespace

void Keeper::take(const Steps& s, DrawSink& sink) {
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
  block.accept_stat = kept_rows(s.accept_stat);
  sink.on_draws(block);
}

SampleChain::SampleChain(const Target& target, const Proposal& proposal, const SampleOptions& options,
                         const Kernel* local, int chain)
    : proposal_(proposal),
      options_(options),
      local_(local),
      keeper_(chain, options),
      independent_(target, proposal, {options.seed, Phase::kChain, static_cast<uint64_t>(chain)}),
      choice_(options.seed, Phase::kChain, static_cast<uint64_t>(chain), Purpose::kChoice),
      local_noise_(options.seed, Phase::kChain, static_cast<uint64_t>(chain), Purpose::kLocal),
      local_accept_(options.seed, Phase::kChain, static_cast<uint64_t>(chain), Purpose::kLocalAccept) {}

void SampleChain::advance_to(int64_t draws, DrawSink& sink, const std::function<void(const SampleChain&)>& tell) {
  if (!independent_.started()) {
    independent_.start();
    if (local_) state_ = local_->init(independent_.x());
  }
  int64_t since = 0;
  for (int64_t left; (left = keeper_.steps_left(draws)) > 0 || !keeper_.warm();) {
    const int64_t n = std::min(left, always_local() ? kBlock : independent_.left());
    keeper_.take(local_ ? mixed_steps(n) : independent_steps(n), sink);
    since += n;
    if (since < kReportEvery) continue;
    since = 0;
    tell(*this);
  }
  tell(*this);
}

double SampleChain::acceptance() const {
  return report_.scan.acceptance_sum / static_cast<double>(std::max<int64_t>(report_.steps, 1));
}

Steps SampleChain::independent_steps(int64_t n) {
  keep_weights(n);
  ScanInfo info = begun();
  const Steps out = independent_.advance(n, info);
  add(info, n);
  return out;
}

Steps SampleChain::mixed_steps(int64_t n) {
  keep_weights(n);
  const int64_t dim = proposal_.dim();
  Steps out{at::empty({n, dim}, at::kDouble), at::empty({n}, at::kDouble), at::empty({n}, at::kDouble),
            at::empty({n}, at::kDouble)};
  double* stats = out.accept_stat.data_ptr<double>();
  ScanInfo info = begun();
  int64_t independent = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (next_is_local()) {
      stats[i] = local_step(info);
    } else {
      ++independent;
      if (independent_.step(info, stats[i])) state_ = local_->init(independent_.x());
    }
    out.x.narrow(0, i, 1).copy_(independent_.x());
    out.log_prob.data_ptr<double>()[i] = independent_.log_prob().item<double>();
    out.log_weight.data_ptr<double>()[i] = independent_.state().log_weight;
  }
  add(info, independent);
  return out;
}

bool SampleChain::next_is_local() {
  if (always_local()) return true;
  if (chosen_used_ == kBlock) choose();
  return chosen_.data_ptr<double>()[chosen_used_++] < options_.local_fraction;
}

void SampleChain::choose() {
  choice_at_ = choice_.position();
  chosen_ = choice_.uniform({kBlock});
  chosen_used_ = 0;
}

double SampleChain::local_step(ScanInfo& info) {
  const Info step = local_->step(state_, {local_noise_, local_accept_});
  const bool moved = step.accepted.item<bool>();
  if (!always_local()) independent_.pass();
  if (moved) {
    independent_.move_to(state_.x, state_.log_prob, (state_.log_prob - proposal_.log_prob(state_.x)).item<double>());
  } else {
    independent_.stay();
  }
  info.longest_run = std::max(info.longest_run, independent_.state().run);
  if (keeper_.warm()) {
    ++report_.local_steps;
    report_.local_accepted += moved;
  }
  return step.accept_prob.item<double>();
}

// Sums go on where they are, so that their rounding does not depend on how a run is cut into portions.
ScanInfo SampleChain::begun() const {
  ScanInfo info;
  info.acceptance_sum = report_.scan.acceptance_sum;
  return info;
}

void SampleChain::add(const ScanInfo& info, int64_t independent) {
  if (!keeper_.warm()) return;
  report_.scan.accepted += info.accepted;
  report_.scan.non_finite += info.non_finite;
  report_.scan.acceptance_sum = info.acceptance_sum;
  report_.scan.longest_run = std::max(report_.scan.longest_run, info.longest_run);
  report_.steps += independent;
}

// Of the first candidates after the warm-up, whether a step looks at them or not.
void SampleChain::keep_weights(int64_t n) {
  if (!keeper_.warm() || always_local() || report_.log_weights.size() >= kKeptWeights) return;
  const auto w =
      independent_.weights_ahead(std::min(n, static_cast<int64_t>(kKeptWeights - report_.log_weights.size())));
  report_.log_weights.insert(report_.log_weights.end(), w.begin(), w.end());
}

void SampleChain::resume() {
  independent_.resume();
  if (!local_) return;
  state_ = local_->init(independent_.x());
  const int64_t used = chosen_used_;
  choice_.seek(choice_at_);
  choose();  // those that were in use
  chosen_used_ = used;
}

}  // namespace hastings
