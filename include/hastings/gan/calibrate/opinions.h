// What networks say of images: the discriminator, and a witness beside it.
#pragma once

#include "hastings/core/tensor.h"
#include "hastings/gan/network/features.h"

namespace hastings {

// What is asked about images beside the discriminator's logit.
struct Questions {
  bool features = false;                    // what its last layer sees
  const FeatureNetwork* witness = nullptr;  // what another network sees
};

// What the discriminator says of images, and a witness.
struct Opinions {
  Tensor logits;         // [n] double
  Tensor features = {};  // [n, width] float: what its last layer sees, or where it hides that the image at 8x8
  Tensor witness = {};   // [n, width] float: what the witness sees; both undefined where not asked for
  int64_t size() const;
  Opinions rows(int64_t from, int64_t count) const;
};

}  // namespace hastings
