#include "hastings/chain/independent.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hastings/core/error.h"
#include "hastings/core/parallel.h"

namespace hastings {
namespace {

std::span<double> doubles(const Tensor& t) { return {t.data_ptr<double>(), static_cast<size_t>(t.numel())}; }

}  // namespace

IndependentKernel::IndependentKernel(Density density, const Proposal& proposal, Blocks blocks)
    : Kernel(decide_exactly(density)), density_(std::move(density)), proposal_(proposal), blocks_(blocks) {}

State IndependentKernel::init(const Tensor& x) const {
  State state = Kernel::init(x);
  state.log_q = proposal_.log_prob(x);
  return state;
}

State IndependentKernel::begin(int64_t chains, RowStreams noise) const {
  const Move first = candidates(chains, noise);
  State state;
  state.x = first.x;
  // A broken point is left for any other.
  const Tensor sound = at::isfinite(log_weight(first));
  state.log_prob = at::where(sound, first.at.log_prob, at::full_like(first.at.log_prob, -HUGE_VAL));
  state.log_q = at::where(sound, first.log_forward, at::zeros_like(first.log_forward));
  return state;
}

Move IndependentKernel::propose(const State& state, const ChainStreams& streams) const {
  Move move = candidates(state.x.size(0), streams.noise);
  move.log_reverse = state.log_q;
  return move;
}

Move IndependentKernel::candidates(int64_t n, RowStreams noise) const {
  const Tensor z = noise.normal(n, proposal_.noise_dim());
  Move move;
  if (blocks_.rows == 0 || n <= blocks_.rows) {
    const Draws draws = proposal_.from_noise(z);
    move.x = draws.x;
    move.at = density_(draws.x, false);
    move.log_forward = draws.log_q;
    return move;
  }
  move.x = at::empty({n, proposal_.dim()}, at::kDouble);
  move.at.log_prob = at::empty({n}, at::kDouble);
  move.log_forward = at::empty({n}, at::kDouble);
  parallel_tasks((n + blocks_.rows - 1) / blocks_.rows, blocks_.threads, [&](int64_t b) {
    auto rows = [&](const Tensor& t) {
      return t.narrow(0, b * blocks_.rows, std::min(blocks_.rows, n - b * blocks_.rows));
    };
    const Draws draws = proposal_.from_noise(rows(z));
    rows(move.x).copy_(draws.x);
    rows(move.at.log_prob).copy_(density_(draws.x, false).log_prob);
    rows(move.log_forward).copy_(draws.log_q);
  });
  return move;
}

void IndependentKernel::settle(State& state, const Move& move, const Info& info) const {
  state.log_q = replaced(info.accepted, move.log_forward, state.log_q);
}

IndependentChain::IndependentChain(const Target& target, const Proposal& proposal, const Streams& streams)
    : target_(target), proposal_(proposal), noise_(streams(Purpose::kProposal)), uniforms_(streams(Purpose::kAccept)) {}

IndependentChain::Candidates IndependentChain::draw() {
  const Draws draws = proposal_.sample(kBlock, noise_);
  const Tensor log_prob = target_.log_prob(draws.x);
  return {draws.x, log_prob, log_prob - draws.log_q};
}

void IndependentChain::start() {
  constexpr int kBlocks = 20;
  for (int block = 0; block < kBlocks; ++block) {
    const Candidates c = draw();
    const auto w = doubles(c.log_weight);
    const auto found = std::find_if(w.begin(), w.end(), [](double v) { return std::isfinite(v); });
    if (found == w.end()) continue;
    const int64_t row = found - w.begin();
    move_to(c.x.narrow(0, row, 1).clone(), c.log_prob.narrow(0, row, 1).clone(), *found);
    return;
  }
  throw NumericalError(
      fmt::format("target {}: none of {} candidates has a finite log density", target_.name(), kBlocks * kBlock));
}

void IndependentChain::next_block() {
  noise_at_ = noise_.position();
  uniforms_at_ = uniforms_.position();
  at_ = 0;
  block_ = draw();
  log_u_ = uniforms_.uniform({kBlock}).log_();
}

int64_t IndependentChain::left() {
  if (at_ == kBlock) next_block();
  return kBlock - at_;
}

Steps IndependentChain::advance(int64_t n, ScanInfo& info) {
  const auto begin = static_cast<size_t>(at_), count = static_cast<size_t>(n);
  const Tensor held = at::empty({n}, at::kLong), stat = at::empty({n}, at::kDouble);
  const Tensor before = at::scalar_tensor(state_.log_weight, at::kDouble).view({1});
  scan(doubles(block_.log_weight).subspan(begin, count), doubles(log_u_).subspan(begin, count), state_, info,
       {held.data_ptr<int64_t>(), count}, doubles(stat));
  const Tensor row = held + 1;  // 0 is the state that came in
  auto chosen = [&](const Tensor& first, const Tensor& rest) {
    return at::cat({first, rest.narrow(0, at_, n)}, 0).index_select(0, row);
  };
  Steps out{chosen(x_, block_.x), chosen(log_prob_, block_.log_prob), chosen(before, block_.log_weight), stat};
  x_ = out.x.narrow(0, n - 1, 1).clone();
  log_prob_ = out.log_prob.narrow(0, n - 1, 1).clone();
  at_ += n;
  return out;
}

bool IndependentChain::step(ScanInfo& info, double& accept_stat) {
  int64_t held;
  const auto at = static_cast<size_t>(at_);
  scan(doubles(block_.log_weight).subspan(at, 1), doubles(log_u_).subspan(at, 1), state_, info, {&held, 1},
       {&accept_stat, 1});
  if (held == 0) {
    x_ = block_.x.narrow(0, at_, 1);
    log_prob_ = block_.log_prob.narrow(0, at_, 1);
  }
  ++at_;
  return held == 0;
}

void IndependentChain::move_to(const Tensor& x, const Tensor& log_prob, double log_weight) {
  x_ = x;
  log_prob_ = log_prob;
  state_.log_weight = log_weight;
  state_.run = 1;
}

std::span<const double> IndependentChain::weights_ahead(int64_t n) const {
  return doubles(block_.log_weight).subspan(static_cast<size_t>(at_), static_cast<size_t>(n));
}

void IndependentChain::resume() {
  if (at_ < 0 || at_ > kBlock || x_.numel() != target_.dim() || log_prob_.numel() != 1)
    throw DataError("the stored state of the chains is damaged");
  const int64_t at = at_;
  noise_.seek(noise_at_);
  uniforms_.seek(uniforms_at_);
  next_block();  // the one that was in use
  at_ = at;
}

}  // namespace hastings
