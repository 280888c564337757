#include "logistic_regression.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "../../core/lbfgs.h"
#include "hastings/core/error.h"

namespace hastings {

Tensor logistic_regression(const Tensor& rows, int64_t real, double c, int64_t penalised, const Tensor& start) {
  const int64_t n = rows.size(0), k = rows.size(1);
  Tensor sign = at::ones({n}, at::kDouble), weight = at::full({n}, 0.5 / static_cast<double>(n - real), at::kDouble);
  sign.narrow(0, real, n - real).fill_(-1);
  weight.narrow(0, 0, real).fill_(0.5 / static_cast<double>(real));
  Tensor ridge = at::zeros({k + 1}, at::kDouble);
  // C as usual: the loss summed over as many rows as there are in the smaller class, twice.
  if (penalised > 0) ridge.narrow(0, 0, penalised).fill_(1 / (c * 2 * static_cast<double>(std::min(real, n - real))));
  const Minimum best = minimise(
      start.defined() ? start : at::zeros({k + 1}, at::kDouble),
      [&](const Tensor& w, Tensor& gradient) {
        // The big products in the precision of the rows, the sums over rows in double.
        const Tensor score = rows.mv(w.narrow(0, 0, k).to(rows.scalar_type())).to(at::kDouble) + w[k];
        const Tensor margin = score * sign;
        const Tensor pull = -weight * sign * at::sigmoid(-margin);
        gradient =
            at::cat({rows.t().mv(pull.to(rows.scalar_type())).to(at::kDouble), pull.sum().view({1})}) + ridge * w;
        return ((weight * at::softplus(-margin)).sum() + 0.5 * (ridge * w * w).sum()).item<double>();
      },
      rows.scalar_type() == at::kDouble ? 1e-8 : 1e-4);
  if (!best.converged) throw NumericalError("calibration: the logistic regression did not converge");
  return best.at;
}

}  // namespace hastings
