// isotonic: any rising function of the logit (pool adjacent violators), linear between its steps.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "../numbers.h"
#include "calibrators.h"

namespace hastings {
namespace {

struct Block {
  double real, fake, score, count;  // weights of both classes; sum of scores; images
  double share() const { return real / (real + fake); }
};

// Blocks in the order of their scores, whose shares of real images rise.
std::vector<Block> pooled(const std::vector<double>& real, const std::vector<double>& fake) {
  std::vector<std::pair<double, bool>> all;
  for (const double s : real) all.emplace_back(s, true);
  for (const double s : fake) all.emplace_back(s, false);
  std::sort(all.begin(), all.end());
  const double balance = static_cast<double>(real.size()) / static_cast<double>(fake.size());
  std::vector<Block> blocks;
  for (const auto& [score, is_real] : all) {
    blocks.push_back({is_real ? 1.0 : 0.0, is_real ? 0.0 : balance, score, 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].share() >= blocks.back().share()) {
      const Block last = blocks.back();
      blocks.pop_back();
      Block& k = blocks.back();
      k = {k.real + last.real, k.fake + last.fake, k.score + last.score, k.count + last.count};
    }
  }
  return blocks;
}

std::vector<Calibration> fit(const CalibrationData& data, CalibratorKind kind) {
  Calibration out;
  out.method = kind;
  for (const auto& k : pooled(to_vector(data.real.logits), to_vector(data.fake.logits))) {
    // Blocks of few or one-sided counts are shrunk towards even odds by half a count on each side.
    const double odds = std::log((k.real + 0.5) / (k.fake + 0.5));
    const double centre = k.score / k.count;
    if (!out.knots.empty() && (centre <= out.knots.back() || odds <= out.log_odds.back()))
      continue;  // kept rising by the shrinkage
    out.knots.push_back(centre);
    out.log_odds.push_back(odds);
  }
  return {out};
}

double interpolated(const Calibration& c, double s) {
  if (std::isnan(s)) return s;
  const auto above = std::upper_bound(c.knots.begin(), c.knots.end(), s);
  if (above == c.knots.begin()) return c.log_odds.front();
  if (above == c.knots.end()) return c.log_odds.back();
  const auto i = static_cast<size_t>(above - c.knots.begin());
  const double t = (s - c.knots[i - 1]) / (c.knots[i] - c.knots[i - 1]);
  return c.log_odds[i - 1] + t * (c.log_odds[i] - c.log_odds[i - 1]);
}

Tensor apply(const Calibration& c, const Opinions& o) {
  auto scores = to_vector(o.logits);
  for (double& s : scores) s = interpolated(c, s);
  return at::tensor(scores, at::kDouble);
}

bool complete(const Calibration& c) {
  return !c.knots.empty() && c.knots.size() == c.log_odds.size() && std::is_sorted(c.knots.begin(), c.knots.end());
}

}  // namespace

CalibratorEntry isotonic_calibrator() {
  return {CalibratorKind::kIsotonic,
          "isotonic",
          "any rising function",
          CalibratorEntry::LooksAt::kLogit,
          {},
          fit,
          apply,
          complete};
}

}  // namespace hastings
