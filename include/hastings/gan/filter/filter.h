// The Metropolis–Hastings filter on scores: which proposals become outputs. Everything here sees numbers only; images
// are made for the winners alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hastings/core/accept.h"
#include "hastings/core/random.h"

namespace hastings {

// plain      every K-th proposal as it comes
// chain      one long chain over all proposals, every K-th state
// restarts   K proposals for each output, the chain started at the score of a real image (Turner and others 2019);
// where
//            none is accepted, started again at the first of the K
// generated  the same, started at the first of the K at once
// rejection  discriminator rejection sampling (Azadi and others 2019) by the highest score seen; its threshold is
// lowered
//            only where fewer than one in K would be accepted
// top        the proposals with the highest scores
struct FilterOptions {
  std::string protocol = "chain";
  int64_t outputs = 10000;
  int64_t per_output = 10;  // K
  void validate() const;
};

// A number for each protocol, for its streams.
uint64_t protocol_number(const std::string& protocol);

struct Filtered {
  std::vector<int64_t> chosen;  // [outputs] the number of the proposal
  int64_t proposals = 0, accepted = 0, non_finite = 0, longest_run = 0;
  int64_t stuck = 0;      // restarts: outputs for which no proposal was accepted from the real start
  double acceptance = 0;  // Rao-Blackwellised; rejection and top: outputs by proposals
  double unique = 0;      // different proposals by outputs
};

// Fed with the log weights of proposals in the order of their numbers, a block at a time: memory does not grow with
// them (for rejection and top it does, eight bytes a proposal).
class Filter {
 public:
  // `real_scores`: log weights of real images for restarts.
  Filter(const FilterOptions& options, std::vector<double> real_scores, const Streams& streams);
  void feed(std::span<const double> log_weight);
  Filtered finish();

 private:
  void feed_chain(std::span<const double> log_weight);
  void feed_restarts(std::span<const double> log_weight);
  void one_restart(std::span<const double> log_weight, int64_t first);
  void choose_by_rejection();
  void choose_top();

  FilterOptions options_;
  std::vector<double> real_;
  Stream uniforms_, starts_;
  ScanState state_;
  ScanInfo info_;
  int64_t fed_ = 0, held_ = -1;
  std::vector<double> kept_;  // weights not yet used (restarts), or all of them (rejection, top)
  Filtered out_;
};

}  // namespace hastings
