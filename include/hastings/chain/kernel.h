// Chains. A kernel is init(x) -> State and step(State&, streams) -> Info, for a batch of chains at once.
//
// A kernel proposes a move and leaves to a decision whether it is made:
//     step = propose, decide, settle.
// A new kind of move is a new propose(); a new test of acceptance, on minibatches or by a learned ratio, a new
// Decision; the loops know of neither. Points may have any shape, [n, dim] or images [n, c, h, w].
#pragma once

#include <functional>
#include <memory>

#include "hastings/core/random.h"
#include "hastings/core/tensor.h"
#include "hastings/target/target.h"

namespace hastings {

struct Evaluated {
  Tensor log_prob;  // [n]
  Tensor gradient;  // [n, dim], only when asked for
};
// The density that chains have as their law: value, and the gradient if the second argument says so.
using Density = std::function<Evaluated(const Tensor& x, bool with_gradient)>;
Density density_of(const Target& target);  // refers to the target

// What a batch of chains carries on.
struct State {
  Tensor x;         // [n, ...]
  Tensor log_prob;  // [n]; where the decision looks at it
  Tensor gradient;  // [n, dim]; kernels that use gradients keep it current
  Tensor log_q;     // [n]; of the independent kernel: w = log_prob - log_q
};

// What is only looked at.
struct Info {
  Tensor accepted;     // [n] bool
  Tensor accept_prob;  // [n] min(1, e^r)
  int64_t non_finite = 0;
};

// A candidate for each chain.
struct Move {
  Tensor x;            // [n, ...]
  Evaluated at;        // the density there, if the kernel has it already
  Tensor log_forward;  // [n] log q(x' | x)
  Tensor log_reverse;  // [n] log q(x | x'); both undefined: q is symmetric
};

// Randomness of moves and of decisions; one stream for all chains, or one each.
struct ChainStreams {
  RowStreams noise, accept;
};

// Replaces the rows of `state` that are accepted by those of `candidate`.
Tensor replaced(const Tensor& accepted, const Tensor& candidate, const Tensor& state);

class Decision {
 public:
  virtual ~Decision() = default;
  // What it has to know of a state before it can decide on moves away from it.
  virtual void prepare(State& state, bool with_gradient) const = 0;
  // Moves the rows that are accepted: x, and what prepare() has put there.
  virtual Info decide(State& state, const Move& move, RowStreams uniforms) const = 0;
};

// log u < r, r = log p(x') - log p(x) + log q(x | x') - log q(x' | x).
std::shared_ptr<const Decision> decide_exactly(Density density);

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual bool needs_gradient() const { return false; }
  virtual State init(const Tensor& x) const;
  virtual Move propose(const State& state, const ChainStreams& streams) const = 0;
  Info step(State& state, const ChainStreams& streams) const;
  Info decide(State& state, const Move& move, const ChainStreams& streams) const;

 protected:
  explicit Kernel(std::shared_ptr<const Decision> decision) : decision_(std::move(decision)) {}
  // What a kernel carries in the state beside the decision's, of the rows that moved.
  virtual void settle(State&, const Move&, const Info&) const {}

 private:
  std::shared_ptr<const Decision> decision_;
};

}  // namespace hastings
