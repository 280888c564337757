// A small network that tells the classes of a data set apart. What it sees in an image is a second opinion beside the
// discriminator's, learned from labels and not from the generator.
#pragma once

#include <cstdint>

#include "hastings/core/events.h"
#include "hastings/gan/features.h"

namespace hastings {

struct ClassifierOptions {
  int64_t steps = 2500, batch = 64, width = 32;  // width: channels of the first stage
  double learning_rate = 2e-3;
  uint64_t seed = 1;
  void validate() const;
};

// Learned by cross-entropy on one thread, the same anywhere. `pixels` uint8 [n, c, h, w], `labels` int64 [n], any
// numbers; DataError if they are all the same, or of too many kinds. The features are what the last layer sees.
FeatureNetwork learn_classifier(const Tensor& pixels, const Tensor& labels, const ClassifierOptions& options,
                                Observer& observer);

}  // namespace hastings
