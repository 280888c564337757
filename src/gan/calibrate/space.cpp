#include "space.h"

#include <algorithm>

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

}  // namespace hastings
