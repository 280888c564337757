// Counter-based random streams (Philox 4x32-10; Salmon, Moraes, Dror and Shaw 2011).
//
// A stream is a pure function of (seed, phase, index, purpose) and a position: there is no global seed, no thread takes
// part in it, and a run that stops and goes on continues at the stored position. Phases keep apart what must not share
// randomness: a proposal is not fitted to, or chosen by, the noise that later drives the chains.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hastings/core/tensor.h"

namespace hastings {

// What a program does, one after the other. All of them are here, so that two cannot have the same number; `index`
// counts what a phase has several of.
enum class Phase : uint16_t {
  // A density
  kBuild = 1,        // initial weights and fixed rotations of a flow
  kStart = 2,        // where learning starts; modes
  kAnneal = 3,       // tempering
  kShape = 4,        // layers that are known before learning
  kLearn = 5,        // Algorithm 1; index: stage, 1 for what was learned after the flow has grown
  kJudge = 6,        // the end of a window of learning; index: stage
  kRounding = 7,     // is single precision enough?
  kTrial = 8,        // chains of a finished proposal, before it is frozen
  kLocalTuning = 9,  // step of local moves
  kRepeat = 10,      // is the density a function?
  kChain = 11,       // chains; index: chain
  kOutput = 12,      // generated quantities of draws; index: chain
  kWarmupOutput = 13,
  kMeeting = 14,  // coupled chains of the convergence certificate; index: pair
  kCheck = 15,    // `hastings check`
  // A GAN
  kSplit = 32,             // which images train, calibrate and score
  kGanBuild = 33,          // initial weights
  kGanTrain = 34,          // Algorithm 2; index: iteration
  kGanShuffle = 35,        // order of the images; index: epoch
  kGanShow = 36,           // the latents that are shown while it learns, always the same
  kClassifier = 37,        // feature networks learned from labels; index: member
  kCalibrationSplit = 38,  // which held-out images calibrate, which judge
  kCalibration = 39,       // generated images that a calibration is fitted to; index: block
  kCalibrationTrial = 40,  // those it is judged by; index: block
  kTrialFilter = 41,       // protocols on trial; index: part
  kThinning = 42,
  kProjection = 43,
  kGanSample = 44,  // proposals of a GAN's samples; index: block
  kGanFilter = 45,  // their filter
  kCompare = 46,    // proposals of `gan compare`; index: block
  kCompareFilter = 47,
  kCompareImages = 48,
  // Baselines
  kHmcTuning = 64,
  kAnice = 65,
  kAniceCritic = 66,
  kL2hmc = 67,
  kVariationalMcmc = 68,
  // Experiments
  kReference = 80,   // exact draws to begin or compare with
  kComparison = 81,  // chains of a method that is compared
  kToy = 82,
  kRejection = 83,
  kSemimetric = 84,
  kExactGan = 85,
  kSimulated = 96,  // data made up
  kTest = 97,       // tests and benchmarks
};

// What for, within a phase.
enum class Purpose : uint16_t {
  kProposal = 1,     // candidates of independent proposals
  kAccept = 2,       // uniforms of the accept rule
  kLocal = 3,        // candidates of state-dependent kernels
  kLocalAccept = 4,  // their uniforms
  kChoice = 5,       // which kernel, which units
  kStart = 6,        // starting points
  kWeights = 7,      // initial network weights
  kBatch = 8,        // which rows of a buffer or data set
  kExact = 9,        // exact draws from a target
  kData = 10,        // simulated data sets
};

class Stream {
 public:
  Stream(uint64_t seed, Phase phase, uint64_t index, Purpose purpose);

  // Uniforms in the open interval (0, 1), 53 bits each.
  void uniform(std::span<double> out);
  // Standard normals by Box–Muller; tails reach 8.5 standard deviations.
  void normal(std::span<double> out);

  double uniform();
  Tensor uniform(at::IntArrayRef shape);            // double
  Tensor normal(at::IntArrayRef shape);             // double
  Tensor integers(int64_t n, int64_t upper_bound);  // int64 in [0, upper_bound)
  Tensor permutation(int64_t n);                    // int64

  // In blocks of 128 bits; every call above begins a new block.
  uint64_t position() const { return block_; }
  void seek(uint64_t position) { block_ = position; }

 private:
  uint64_t take(uint64_t blocks);  // where they begin

  uint32_t key_[2];
  uint32_t index_;
  uint32_t use_;  // phase and purpose
  uint64_t block_ = 0;
  uint64_t id_ = 0;  // for the ledger
};

// All streams of a phase, or of one of its parts.
struct Streams {
  uint64_t seed;
  Phase phase;
  uint64_t index = 0;
  Stream operator()(Purpose purpose) const { return {seed, phase, index, purpose}; }
};

// While one lives, it is told of every block that any stream draws: the test that no two uses share randomness.
class StreamLedger {
 public:
  struct Entry {
    uint64_t stream;  // a number for each that was opened
    uint64_t seed;
    Phase phase;
    uint64_t index;
    Purpose purpose;
    uint64_t first, blocks;
  };
  StreamLedger();
  ~StreamLedger();
  StreamLedger(const StreamLedger&) = delete;
  StreamLedger& operator=(const StreamLedger&) = delete;
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  friend class Stream;
  std::vector<Entry> entries_;
};

// Randomness for a batch of chains: row i of a batch draws from stream i, so that a chain's draws do
// not depend on its neighbours. One stream alone serves the whole batch.
class RowStreams {
 public:
  RowStreams(Stream& shared) : streams_(&shared, 1) {}  // NOLINT: a stream is usable where rows are wanted
  explicit RowStreams(std::span<Stream> rows) : streams_(rows) {}
  Tensor normal(int64_t rows, int64_t columns) const;  // [rows, columns] double
  Tensor uniform(int64_t rows) const;                  // [rows] double

 private:
  std::span<Stream> streams_;
};

}  // namespace hastings
