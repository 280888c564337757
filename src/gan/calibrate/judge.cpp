#include "judge.h"

#include <algorithm>

#include "hastings/diagnose/mean_error.h"
#include "hastings/gan/filter/filter.h"

namespace hastings {
namespace {

constexpr int64_t kDirections = 64;  // principal directions of wide features
constexpr int64_t kWide = 256;       // the discriminator's are always reduced: they are many and much alike

}  // namespace

Projection::Projection(const Tensor& features, uint64_t seed) : standardise_(features) {
  const Tensor x = standardise_(features);
  const int64_t d = std::min({kDirections, x.size(1), x.size(0) - 1});
  Stream stream(seed, Phase::kProjection, 0, Purpose::kStart);
  directions_ = stream.normal({x.size(1), d}).to(at::kFloat);
  for (int i = 0; i < 12; ++i) directions_ = std::get<0>(at::linalg_qr(x.t().mm(x.mm(directions_))));
}

Space::Space(const Opinions& real, const Opinions& fake, bool witness, uint64_t seed) : witness_(witness) {
  auto some = [&](const Opinions& o) {
    const Tensor& x = witness ? o.witness : o.features;
    return x.narrow(0, 0, std::min<int64_t>(x.size(0), 2000));
  };
  if (!witness || real.witness.size(1) > kWide) project_.emplace(at::cat({some(real), some(fake)}), seed);
}

Tensor Space::operator()(const Opinions& opinions) const {
  const Tensor& x = witness_ ? opinions.witness : opinions.features;
  return project_ ? (*project_)(x) : x;
}

Judge::Judge(Tensor proposals, const Tensor& real, int64_t per_output, uint64_t seed)
    : features_(std::move(proposals)), real_(feature_moments(real)), per_output_(per_output), seed_(seed) {
  const int64_t each = real.size(0) / kParts;
  for (int k = 0; k < kParts; ++k) real_parts_.push_back(feature_moments(real.narrow(0, k * each, each)));
  plain_ = measure(ProtocolKind::kPlain, {}, at::zeros({features_.size(0)}, at::kDouble), plain_distances_);
  plain_.distance_error = mean_error(plain_distances_).error;
}

Trial Judge::measure(ProtocolKind protocol, const Setting& setting, const Tensor& weights,
                     std::vector<double>& distances) const {
  Trial t;
  t.method = setting.calibration.method;
  t.penalty = setting.calibration.penalty;
  t.protocol = protocol;
  t.log_loss = setting.quality.log_loss;
  const int64_t part = weights.size(0) / kParts / per_output_ * per_output_;
  std::vector<Tensor> chosen;
  for (int k = 0; k < kParts; ++k) {
    FilterOptions f;
    f.protocol = protocol;
    f.per_output = per_output_;
    f.outputs = part / per_output_;
    Filter filter(f, setting.real_scores, {seed_, Phase::kTrialFilter, static_cast<uint64_t>(k)});
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

Trial Judge::trial(ProtocolKind protocol, const Setting& setting, const Tensor& weights) const {
  std::vector<double> distances;
  Trial t = measure(protocol, setting, weights, distances);
  for (size_t k = 0; k < distances.size(); ++k) distances[k] -= plain_distances_[k];
  t.distance_error = mean_error(distances).error;
  return t;
}

}  // namespace hastings
