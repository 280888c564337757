// Counter-based random streams (Philox 4x32-10; Salmon, Moraes, Dror and Shaw 2011).
//
// A stream is a pure function of (seed, chain, purpose) and a position: there is no global seed, no
// thread takes part in it, and a run that stops and goes on continues at the stored position.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hastings/core/tensor.h"

namespace hastings {

enum class Purpose : uint32_t {
  kProposal = 1,  // candidates of independent proposals
  kAccept = 2,    // uniforms of the accept rule
  kLocal = 3,     // candidates of state-dependent kernels
  kChoice = 4,    // which kernel or which component
  kStart = 5,     // starting points of learning and of chains
  kWeights = 6,   // initial network weights
  kBatch = 7,     // which rows of a buffer or data set
  kExact = 8,     // exact draws from a target
  kData = 9,      // simulated data sets
  kCouple = 10,   // coupled chains of the convergence certificate
  kOutput = 11,   // generated quantities
};

class Stream {
 public:
  Stream(uint64_t seed, uint64_t chain, Purpose purpose);

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
  uint32_t key_[2];
  uint32_t chain_;
  uint32_t purpose_;
  uint64_t block_ = 0;
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
