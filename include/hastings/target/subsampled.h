// A density that is a prior times a product over data,
//     log p(x) = log prior(x) + sum_i l_i(x),   i = 1 .. terms().
// What learns on minibatches, and what accepts by tests on a part of the data, asks for chosen terms; all others see a
// density like any other.
#pragma once

#include "hastings/target/target.h"

namespace hastings {

class SubsampledTarget : public Target {
 public:
  virtual int64_t terms() const = 0;
  // [batch], and the gradient [batch, dim] if asked for.
  virtual Gradient log_prior(const Tensor& x, bool with_gradient) const = 0;
  // The sum of the chosen terms at each point, [batch], and its gradient. `rows` int64: numbers from 0; one that is
  // there twice counts twice.
  virtual Gradient log_likelihood(const Tensor& x, const Tensor& rows, bool with_gradient) const = 0;
  // Each of them: [batch, rows].
  virtual Tensor terms_at(const Tensor& x, const Tensor& rows) const = 0;
};

}  // namespace hastings
