// Algorithm 2: the discriminator learns the log weight, the generator maximises the acceptance rate it implies.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hastings/core/events.h"
#include "hastings/gan/network/pair.h"
#include "hastings/gan/train/loss.h"

namespace hastings {

struct GanTrainOptions {
  LossKind loss = LossKind::kArlb;
  int64_t batch = 64;
  int64_t iterations = 0;    // of the generator; 0: by epochs
  double epochs = 10;        // passes of the discriminator over the training images
  double learning_rate = 0;  // 0: the loss's own
  int64_t critic_steps = 0;  // discriminator steps an iteration; 0: the loss's own
  double gradient_penalty = 10;
  uint64_t seed = 1;
  void validate() const;
};

struct GanProgress {
  int64_t iteration = 0, iterations = 0;
  double discriminator_loss = 0, generator_loss = 0;
  double acceptance = 0;  // of the generator's samples against real ones, by the discriminator
  double seconds = 0;
};

class GanTrainer {
 public:
  // `pixels`: uint8 [n, c, h, w], the training split alone.
  GanTrainer(Pair& pair, Tensor pixels, const GanTrainOptions& options);
  ~GanTrainer();

  int64_t iteration() const;
  int64_t iterations() const;
  GanProgress step(Observer* observer = nullptr);  // one iteration

  // All that is needed to go on bit for bit (with the same number of threads).
  Weights state() const;
  void restore(const Weights& state, const std::string& file);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hastings
