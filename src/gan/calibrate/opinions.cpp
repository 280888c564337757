#include "hastings/gan/calibrate/opinions.h"

#include <ATen/ATen.h>

namespace hastings {

int64_t Opinions::size() const { return logits.size(0); }

Opinions Opinions::rows(int64_t from, int64_t count) const {
  auto part = [&](const Tensor& x) { return x.defined() ? x.narrow(0, from, count) : Tensor(); };
  return {part(logits), part(features), part(witness)};
}

}  // namespace hastings
