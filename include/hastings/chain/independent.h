// Independent Metropolis–Hastings: candidates do not depend on the state, and each point has one number, its log weight
// w = log p - log q.
#pragma once

#include <span>

#include "hastings/chain/kernel.h"
#include "hastings/core/accept.h"
#include "hastings/proposal/proposal.h"

namespace hastings {

// A batch of chains, a candidate each.
class IndependentKernel final : public Kernel {
 public:
  // So many candidates are evaluated at a time, by so many threads; 0: all at once. Refers to the proposal.
  struct Blocks {
    int64_t rows = 0;
    int threads = 1;
  };
  IndependentKernel(Density density, const Proposal& proposal, Blocks blocks = {0, 1});

  State init(const Tensor& x) const override;
  State begin(int64_t chains, RowStreams noise) const;  // at draws of the proposal
  Move propose(const State& state, const ChainStreams& streams) const override;

  static Tensor log_weight(const State& state) { return state.log_prob - state.log_q; }
  static Tensor log_weight(const Move& move) { return move.at.log_prob - move.log_forward; }

 private:
  void settle(State& state, const Move& move, const Info& info) const override;
  Move candidates(int64_t n, RowStreams noise) const;
  Density density_;
  const Proposal& proposal_;
  Blocks blocks_;
};

// Consecutive steps of one chain.
struct Steps {
  Tensor x, log_prob, log_weight, accept_stat;  // [n, dim], [n]
};

// One chain, the fast way: candidates are drawn and scored in blocks of fixed size, then scanned. What it draws is a
// function of its streams alone, however its steps are cut.
class IndependentChain {
 public:
  static constexpr int64_t kBlock = 512;
  // Refers to target and proposal.
  IndependentChain(const Target& target, const Proposal& proposal, const Streams& streams);

  bool started() const { return x_.defined(); }
  void start();    // at the first candidate of finite weight; NumericalError if there is none
  int64_t left();  // candidates of the block that are left; one that is used up is replaced
  // So many steps, left() at the most.
  Steps advance(int64_t n, ScanInfo& info);

  // Step by step, where other moves are mixed in; every step uses up a candidate, whether it looks at it or not.
  bool step(ScanInfo& info, double& accept_stat);  // true: the state is the candidate now
  void pass() { ++at_; }
  void move_to(const Tensor& x, const Tensor& log_prob, double log_weight);  // by a move that is not its own
  void stay() { ++state_.run; }

  std::span<const double> weights_ahead(int64_t n) const;  // of the next candidates
  const Tensor& x() const { return x_; }                   // [1, dim]
  const Tensor& log_prob() const { return log_prob_; }     // [1]
  const ScanState& state() const { return state_; }

  // To be stored and taken up again.
  template <class Archive>
  void fields(Archive& a) {
    a("x", x_);
    a("log_prob", log_prob_);
    a("log_weight", state_.log_weight);
    a("run", state_.run);
    a("noise", noise_at_);
    a("uniforms", uniforms_at_);
    a("at", at_);
  }
  void resume();  // after fields() were read

 private:
  struct Candidates {
    Tensor x, log_prob, log_weight;  // [kBlock, dim], [kBlock]
  };
  Candidates draw();
  void next_block();

  const Target& target_;
  const Proposal& proposal_;
  Stream noise_, uniforms_;
  uint64_t noise_at_ = 0, uniforms_at_ = 0;  // where the block in use began
  Candidates block_;
  Tensor log_u_;
  int64_t at_ = kBlock;  // candidates of the block that are used up
  Tensor x_, log_prob_;
  ScanState state_;
};

}  // namespace hastings
