// beta: a log d + b log(1 - d) + c (Kull and others 2017), with log d = -softplus(-logit), log(1 - d) =
// -softplus(logit).
#include <ATen/ATen.h>

#include "../numbers.h"
#include "calibrators.h"
#include "logistic_regression.h"

namespace hastings {
namespace {

std::vector<Calibration> fit(const CalibrationData& data, CalibratorKind kind) {
  const Tensor s = at::cat({data.real.logits, data.fake.logits});
  const Tensor rows = at::stack({-at::softplus(-s), at::softplus(s)}, 1);
  const Tensor scale = rows.std(0).clamp_min(1e-12);
  const auto w = to_vector(logistic_regression(rows / scale, data.real.size(), kFaintRidge, 2));
  const auto sd = to_vector(scale);
  Calibration out;
  out.method = kind;
  out.log_d_slope = w[0] / sd[0];
  out.log_not_d_slope = w[1] / sd[1];
  out.offset = w[2];
  return {out};
}

Tensor apply(const Calibration& c, const Opinions& o) {
  return -at::softplus(-o.logits) * c.log_d_slope + at::softplus(o.logits) * c.log_not_d_slope + c.offset;
}

}  // namespace

CalibratorEntry beta_calibrator() {
  return {CalibratorKind::kBeta,
          "beta",
          "a log d + b log(1 - d) + c",
          CalibratorEntry::LooksAt::kLogit,
          {&Calibration::log_d_slope, &Calibration::log_not_d_slope, &Calibration::offset},
          fit,
          apply,
          needs_no_more};
}

}  // namespace hastings
