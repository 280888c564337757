// One chain of a sampling run: independent moves by blocks, with local ones mixed in where asked for. Which steps are
// local is decided beforehand, by a stream of its own.
#pragma once

#include <functional>

#include "hastings/chain/independent.h"
#include "hastings/sample/sampler.h"

namespace hastings {

// Counts steps, and hands on those that are kept.
class Keeper {
 public:
  Keeper(int chain, const SampleOptions& options) : chain_(chain), options_(options) {}
  bool warm() const { return step_ >= options_.warmup; }
  int64_t kept() const { return warm() ? (step_ - options_.warmup) / options_.thin : 0; }
  // Steps still to do for so many kept draws, or, first, for the warm-up.
  int64_t steps_left(int64_t draws) const {
    return warm() ? options_.warmup + draws * options_.thin - step_ : options_.warmup - step_;
  }
  void take(const Steps& steps, DrawSink& sink);

  template <class Archive>
  void fields(Archive& a) {
    a("step", step_);
  }

 private:
  int chain_;
  const SampleOptions& options_;
  int64_t step_ = 0;
};

class SampleChain {
 public:
  // Refers to all of them; `local` is null for independent steps alone.
  SampleChain(const Target& target, const Proposal& proposal, const SampleOptions& options, const Kernel* local,
              int chain);

  void advance_to(int64_t draws, DrawSink& sink, const std::function<void(const SampleChain&)>& tell);
  int64_t kept() const { return keeper_.kept(); }
  const ChainReport& report() const { return report_; }
  void set_seconds(double seconds) { report_.seconds = seconds; }
  double acceptance() const;

  template <class Archive>
  void fields(Archive& a) {
    a("keeper", keeper_);
    a("independent", independent_);
    a("report", report_);
    a("choice", choice_at_);
    a("chosen", chosen_used_);
    a("local_noise", local_noise_);
    a("local_accept", local_accept_);
  }
  void resume();  // after fields() were read

 private:
  bool always_local() const { return options_.local_moves == LocalMoves::kMixture; }
  void choose();
  bool next_is_local();
  Steps independent_steps(int64_t n);
  Steps mixed_steps(int64_t n);
  double local_step(ScanInfo& info);
  ScanInfo begun() const;
  void add(const ScanInfo& info, int64_t independent);
  void keep_weights(int64_t n);

  const Proposal& proposal_;
  const SampleOptions& options_;
  const Kernel* local_;
  Keeper keeper_;
  IndependentChain independent_;
  Stream choice_, local_noise_, local_accept_;
  uint64_t choice_at_ = 0;  // where the choices in use began
  Tensor chosen_;           // [IndependentChain::kBlock] uniforms
  int64_t chosen_used_ = IndependentChain::kBlock;
  State state_;  // of the local kernel
  ChainReport report_;
};

}  // namespace hastings
