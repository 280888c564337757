// Points roughly distributed as a target: what learning starts from, and its buffer.
#pragma once

#include "hastings/core/tensor.h"
#include "hastings/proposal/proposal.h"
#include "hastings/target/target.h"

namespace hastings {

struct Population {
  Tensor x, log_prob;  // [n, dim], [n]

  template <class Archive>
  void fields(Archive& a) {
    a("x", x);
    a("log_prob", log_prob);
  }
};

// How well a proposal's draws and states overlap: the acceptance rate between them.
double overlap(const Target& target, const Draws& draws, const Tensor& state_log_prob, const Tensor& state_log_q);

}  // namespace hastings
