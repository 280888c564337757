// Small networks that tell the classes of a data set apart. What they see in an image is a second opinion beside the
// discriminator's, learned from labels and not from the generator.
#pragma once

#include <cstdint>

#include "hastings/core/events.h"
#include "hastings/gan/network/features.h"

namespace hastings {

struct ClassifierOptions {
  int64_t members = 3;                           // several: what one sees is partly chance
  int64_t steps = 1500, batch = 64, width = 32;  // of each; width: channels of the first stage
  double learning_rate = 2e-3;
  uint64_t seed = 1;
  int threads = 0;
  void validate() const;
};

// Learned by cross-entropy, one thread each: the same for any number of threads. `pixels` uint8 [n, c, h, w], `labels`
// int64 [n], any numbers; DataError if they are all the same, or of too many kinds. The features are what the last
// layers see, side by side.
FeatureNetwork learn_classifiers(const Tensor& pixels, const Tensor& labels, const ClassifierOptions& options,
                                 Observer& observer);

}  // namespace hastings
