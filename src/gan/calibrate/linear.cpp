// A linear map of features, learned by cross-entropy (the paper's way) with a ridge penalty on standardised features:
//   head     the last layer reset: of what the discriminator's last layer sees
//   refit    the last layer refined: the old logit with a free slope, plus a head
//   witness, logit+witness  the same two on the features of a witness, a network that was shown other things than the
//            discriminator (a classifier of the data's labels)
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "../numbers.h"
#include "calibrators.h"
#include "hastings/core/error.h"
#include "logistic_regression.h"

namespace hastings {
namespace {

using LooksAt = CalibratorEntry::LooksAt;

bool with_logit(CalibratorKind kind) { return !entry_of(kind).coefficients.empty(); }

const Tensor& seen(LooksAt at, const Opinions& o) { return at == LooksAt::kWitness ? o.witness : o.features; }

// What a regression is learned on: [n, width] standardised features and, where it takes part, the logit as one column
// more. The features are standardised once for all penalties.
class Rows {
 public:
  Rows(const Tensor& of_real, const Tensor& of_fake, const CalibrationData& data, bool with_logit)
      : width_(of_real.size(1)),
        rows_(at::empty({of_real.size(0) + of_fake.size(0), width_ + (with_logit ? 1 : 0)}, at::kFloat)),
        standardise_(filled(of_real, of_fake)) {
    rows_.narrow(1, 0, width_).sub_(standardise_.mean).div_(standardise_.scale);
    if (!with_logit) return;
    const Tensor logits = at::cat({data.real.logits, data.fake.logits});
    logit_mean_ = logits.mean().item<double>();
    logit_scale_ = std::max(logits.std().item<double>(), 1e-12);
    rows_.select(1, width_).copy_((logits - logit_mean_) / logit_scale_);
  }

  const Tensor& rows() const { return rows_; }
  int64_t width() const { return width_; }

  // The regression's numbers [width, the logit's, bias] in terms of the features and the logit themselves.
  void undo(const Tensor& w, Calibration& c) const {
    c.weight = (w.narrow(0, 0, width_) / standardise_.scale.to(at::kDouble)).contiguous();
    c.bias = (w[w.size(0) - 1] - c.weight.dot(standardise_.mean.to(at::kDouble))).item<double>();
    if (rows_.size(1) == width_) return;
    c.slope = w[width_].item<double>() / logit_scale_;
    c.bias -= c.slope * logit_mean_;
  }

 private:
  Tensor filled(const Tensor& of_real, const Tensor& of_fake) {
    Tensor features = rows_.narrow(1, 0, width_);
    features.narrow(0, 0, of_real.size(0)).copy_(of_real);
    features.narrow(0, of_real.size(0), of_fake.size(0)).copy_(of_fake);
    return features;
  }

  int64_t width_;
  Tensor rows_;
  Standardiser standardise_;  // constant columns take no part
  double logit_mean_ = 0, logit_scale_ = 1;
};

std::vector<Calibration> fit(const CalibrationData& data, CalibratorKind kind) {
  const CalibratorEntry& entry = entry_of(kind);
  const bool of_witness = entry.looks_at == LooksAt::kWitness;
  const Tensor &of_real = seen(entry.looks_at, data.real), &of_fake = seen(entry.looks_at, data.fake);
  if (!of_real.defined() || !of_fake.defined())
    throw ConfigError(fmt::format("calibration '{}': {}", entry.name,
                                  of_witness ? "needs a witness, another network that sees the images"
                                             : "the discriminator does not show the features its last layer sees"));
  const Rows rows(of_real, of_fake, data, with_logit(kind));
  std::vector<Calibration> out;
  Tensor w;  // a penalty starts where the one before it ended
  for (const double penalty : data.penalties) {
    Calibration c;
    c.method = kind;
    c.penalty = penalty;
    if (of_witness) c.witness = data.witness;
    w = logistic_regression(rows.rows(), data.real.size(), penalty, rows.width(), w);
    rows.undo(w, c);
    out.push_back(std::move(c));
  }
  return out;
}

Tensor apply(const Calibration& c, const Opinions& o) {
  const CalibratorEntry& entry = entry_of(c.method);
  const Tensor& features = seen(entry.looks_at, o);
  if (!features.defined() || features.size(1) != c.weight.size(0))
    throw ConfigError(fmt::format("calibration '{}': has {} weights, the network shows {} features", entry.name,
                                  c.weight.size(0), features.defined() ? features.size(1) : 0));
  const Tensor head = features.mv(c.weight.to(at::kFloat)).to(at::kDouble) + c.bias;
  return with_logit(c.method) ? head + o.logits * c.slope : head;
}

bool complete(const Calibration& c) { return c.weight.defined() && c.weight.dim() == 1; }

}  // namespace

CalibratorEntry head_calibrator() {
  return {CalibratorKind::kHead, "head", "the last layer reset", LooksAt::kFeatures, {}, fit, apply, complete};
}

CalibratorEntry refit_calibrator() {
  return {CalibratorKind::kRefit,
          "refit",
          "the last layer refined",
          LooksAt::kFeatures,
          {&Calibration::slope},
          fit,
          apply,
          complete};
}

CalibratorEntry witness_calibrator() {
  return {CalibratorKind::kWitness,
          "witness",
          "a head on what a witness sees",
          LooksAt::kWitness,
          {},
          fit,
          apply,
          complete};
}

CalibratorEntry logit_witness_calibrator() {
  return {CalibratorKind::kLogitWitness,
          "logit+witness",
          "the logit and what a witness sees",
          LooksAt::kWitness,
          {&Calibration::slope},
          fit,
          apply,
          complete};
}

}  // namespace hastings
