// The generator as a source of numbered proposals: proposal i is a function of (seed, phase, i) and nothing else, so
// that scores can be kept and images made again for those that won.
#pragma once

#include <functional>
#include <vector>

#include "hastings/core/events.h"
#include "hastings/gan/calibrate/calibrate.h"
#include "hastings/gan/network/pair.h"

namespace hastings {

constexpr int64_t kProposalBlock = 250;  // proposals that go through the networks together

class Proposals {
 public:
  Proposals(const Pair& pair, uint64_t seed, Phase phase, int threads);

  // What is said of proposals [from, from + count).
  Opinions opinions(int64_t from, int64_t count, const Questions& questions) const;
  // uint8 [numbers, c, h, w]
  Tensor render(const std::vector<int64_t>& numbers) const;
  // Calls `take(first, calibrated log weights)` for blocks of [0, count) in order; memory is bounded.
  void weigh(int64_t count, const Calibration& calibration, const std::function<void(const Tensor&)>& take,
             Observer& observer) const;

 private:
  Tensor latents(int64_t block) const;
  Opinions block(int64_t number, const Questions& questions) const;
  const Pair& pair_;
  uint64_t seed_;
  Phase phase_;
  int threads_;
};

// The same for real images, uint8 [n, c, h, w].
Opinions opinions_of(const Pair& pair, const Tensor& pixels, const Questions& questions, int threads);

}  // namespace hastings
