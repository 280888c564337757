// Frozen proposal -> chains. Candidates are drawn and scored in blocks of fixed size, then scanned; a chain's
// draws are a function of (seed, chain) alone.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hastings/chain/kernel.h"
#include "hastings/core/accept.h"
#include "hastings/core/events.h"
#include "hastings/proposal/proposal.h"
#include "hastings/target/target.h"

namespace hastings {

// Steps mixed into those of the independent proposal.
enum class LocalMoves { kAuto, kNone, kRandomWalk, kMala, kHmc, kMixture };
struct LocalMovesEntry {
  LocalMoves kind;
  const char *name, *help;
};
const std::vector<LocalMovesEntry>& local_moves();
std::string to_string(LocalMoves moves);
void parse(const std::string& name, LocalMoves& moves);  // ConfigError: must be auto, none, rw, mala, hmc or mixture

struct SampleOptions {
  int chains = 4;
  int64_t draws = 1000;  // kept, each chain
  int64_t warmup = 200;  // first steps, discarded: the proposal is frozen already, this is burn-in
  int64_t thin = 1;      // keep every thin-th step
  uint64_t seed = 1;
  int threads = 0;  // 0: all cores
  LocalMoves local_moves = LocalMoves::kNone;
  double local_fraction = 0.2;  // share of steps that are local (mixture: weight of the random walk)
  double local_step = 0;        // in units of the target's spread; 0: the usual scaling with dimension
  int leapfrog_steps = 10;
  void validate() const;
  // auto: HMC for half of the steps where the proposal was learned to accept too little for independent moves alone.
  SampleOptions resolved(double acceptance) const;

  template <class Archive>
  void fields(Archive& a) {
    a("chains", chains);
    a("draws", draws);
    a("warmup", warmup);
    a("thin", thin);
    a("seed", seed);
    a("local_moves", local_moves);
    a("local_fraction", local_fraction);
    a("local_step", local_step);
    a("leapfrog_steps", leapfrog_steps);
  }
};

// A block of consecutive draws of one chain: kept ones, or steps of the warm-up.
struct DrawBlock {
  int chain = 0;
  bool warmup = false;
  int64_t first = 0;   // index of the first draw among the kept ones (of the warm-up: among its steps)
  Tensor x;            // [n, dim]
  Tensor log_prob;     // [n]
  Tensor log_weight;   // [n] log p - log q
  Tensor accept_stat;  // [n] min(1, e^r) of the step that led here
};

// Takes the draws as they come. Blocks of one chain arrive in order; different chains from different threads.
class DrawSink {
 public:
  virtual ~DrawSink() = default;
  virtual void on_draws(const DrawBlock& block) = 0;
};

// Keeps everything but the warm-up in memory.
class MemorySink final : public DrawSink {
 public:
  MemorySink(int chains, int64_t draws, int64_t dim);
  void on_draws(const DrawBlock& block) override;
  Tensor draws, log_prob, log_weight, accept_stat;  // [chains, draws, dim], [chains, draws]
};

struct ChainReport {
  ScanInfo scan;      // after warm-up, independent steps
  int64_t steps = 0;  // independent steps after warm-up
  int64_t local_steps = 0;
  int64_t local_accepted = 0;
  std::vector<double> log_weights;  // of the first independent candidates, for evidence and Pareto k
  double seconds = 0;

  // Without the seconds: they differ when a run is repeated.
  template <class Archive>
  void fields(Archive& a) {
    a("scan", scan);
    a("steps", steps);
    a("local_steps", local_steps);
    a("local_accepted", local_accepted);
    a("log_weights", log_weights);
  }
};

struct SampleReport {
  std::vector<ChainReport> chains;
  double seconds = 0;  // wall clock
};

class SampleChain;

// All chains, advanced together. How they are advanced, in which portions and by how many threads, does not change what
// they draw; nor does storing the state and going on from it in another process.
class Sampler {
 public:
  // Refers to target and proposal.
  Sampler(const Target& target, const Proposal& proposal, const SampleOptions& options);
  ~Sampler();

  // Every chain goes on until it has kept `draws` draws. Warm-up comes first.
  void advance_to(int64_t draws, DrawSink& sink, Observer& observer);
  int64_t draws() const { return draws_; }  // kept so far, each chain
  const SampleReport& report() const { return report_; }

  std::map<std::string, Tensor> state() const;
  void restore(const std::map<std::string, Tensor>& state);

 private:
  SampleOptions options_;
  std::unique_ptr<Kernel> local_;
  std::vector<std::unique_ptr<SampleChain>> chains_;
  SampleReport report_;
  int64_t draws_ = 0;
};

// Portions that take about a fifth of a second: between them a run can be stopped, stored and looked at.
class Portions {
 public:
  int64_t next(int64_t done, int64_t wanted) const { return std::min(wanted, done + size_); }
  void took(int64_t draws, double seconds);

 private:
  int64_t size_ = 256;
};

// To options.draws in one go; Interrupted when the observer asks.
SampleReport sample(const Target& target, const Proposal& proposal, const SampleOptions& options, DrawSink& sink,
                    Observer& observer);

}  // namespace hastings
