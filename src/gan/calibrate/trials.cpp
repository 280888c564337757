#include "trials.h"

#include <algorithm>

#include "../numbers.h"
#include "hastings/diagnose/mean_error.h"
#include "hastings/gan/filter/filter.h"

namespace hastings {

Trials::Trials(Tensor proposals, const Tensor& real, int64_t per_output, uint64_t seed)
    : features_(std::move(proposals)), real_(feature_moments(real)), per_output_(per_output), seed_(seed) {
  const int64_t each = real.size(0) / kParts;
  for (int k = 0; k < kParts; ++k) real_parts_.push_back(feature_moments(real.narrow(0, k * each, each)));
  plain_ = measure(ProtocolKind::kPlain, {}, at::zeros({features_.size(0)}, at::kDouble), plain_distances_);
  plain_.distance_error = mean_error(plain_distances_).error;
}

Trial Trials::measure(ProtocolKind protocol, const Fitted& fitted, const Tensor& weights,
                      std::vector<double>& distances) const {
  Trial t;
  t.method = fitted.calibration.method;
  t.penalty = fitted.calibration.penalty;
  t.protocol = protocol;
  t.log_loss = fitted.quality.log_loss;
  const int64_t part = weights.size(0) / kParts / per_output_ * per_output_;
  std::vector<Tensor> chosen;
  for (int k = 0; k < kParts; ++k) {
    FilterOptions f;
    f.protocol = protocol;
    f.per_output = per_output_;
    f.outputs = part / per_output_;
    Filter filter(f, fitted.real_scores, {seed_, Phase::kTrialFilter, static_cast<uint64_t>(k)});
    filter.feed(to_vector(weights.narrow(0, k * part, part)));
    const Filtered got = filter.finish();
    t.acceptance += got.acceptance / kParts;
    t.unique += got.unique / kParts;
    t.longest_run = std::max(t.longest_run, got.longest_run);
    chosen.push_back(features_.index_select(0, at::tensor(got.chosen, at::kLong) + k * part));
    distances.push_back(frechet_distance(feature_moments(chosen.back()), real_parts_[static_cast<size_t>(k)]));
  }
  // A distance from n outputs and n images is too large by about c/n: from all of them and from the parts follows the
  // one of many (Chong and Forsyth 2020).
  const double all = frechet_distance(feature_moments(at::cat(chosen)), real_);
  t.distance = all - (mean_error(distances).mean - all) / (kParts - 1);
  return t;
}

Trial Trials::run(ProtocolKind protocol, const Fitted& fitted, const Tensor& weights) const {
  std::vector<double> distances;
  Trial t = measure(protocol, fitted, weights, distances);
  for (size_t k = 0; k < distances.size(); ++k) distances[k] -= plain_distances_[k];
  t.distance_error = mean_error(distances).error;
  return t;
}

}  // namespace hastings
