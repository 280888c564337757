// platt: a logit + b.
#include <ATen/ATen.h>

#include <algorithm>

#include "../numbers.h"
#include "calibrators.h"
#include "logistic_regression.h"

namespace hastings {
namespace {

std::vector<Calibration> fit(const CalibrationData& data, CalibratorKind kind) {
  const Tensor s = at::cat({data.real.logits, data.fake.logits});
  const double scale = std::max(s.std().item<double>(), 1e-12);
  const auto w = to_vector(logistic_regression((s / scale).unsqueeze(1), data.real.size(), kFaintRidge, 1));
  Calibration out;
  out.method = kind;
  out.slope = w[0] / scale;
  out.offset = w[1];
  return {out};
}

Tensor apply(const Calibration& c, const Opinions& o) { return o.logits * c.slope + c.offset; }

}  // namespace

CalibratorEntry platt_calibrator() {
  return {CalibratorKind::kPlatt,
          "platt",
          "a logit + b",
          CalibratorEntry::LooksAt::kLogit,
          {&Calibration::slope, &Calibration::offset},
          fit,
          apply,
          needs_no_more};
}

}  // namespace hastings
