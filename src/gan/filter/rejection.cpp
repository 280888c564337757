// rejection: discriminator rejection sampling (Azadi and others 2019) by the highest score seen; its threshold is
// lowered only where fewer than one in K would be accepted.
//
// Accepted with probability sigmoid(F - gamma), F = w - M - log(1 - e^{w - M - eps}). With gamma = 0 that is e^{w - M},
// rejection sampling proper; where it leaves too few, gamma < 0 is more lenient.
#include <algorithm>
#include <cmath>
#include <limits>

#include "protocols.h"

namespace hastings {
namespace {

class Rejection final : public Protocol {
 public:
  Rejection(const FilterOptions& options, const Streams& streams)
      : outputs_(options.outputs), uniforms_(streams(Purpose::kAccept)) {}

  void feed(std::span<const double> log_weight) override {
    weights_.insert(weights_.end(), log_weight.begin(), log_weight.end());
  }

  Filtered finish() override {
    for (const double w : weights_) {
      if (std::isfinite(w)) top_ = std::max(top_, w);
    }
    Filtered out;
    out.chosen = chosen_by(leniency());
    out.accepted = static_cast<int64_t>(out.chosen.size());
    out.acceptance = static_cast<double>(out.chosen.size()) / static_cast<double>(weights_.size());
    out.longest_run = 1;
    return out;
  }

 private:
  double f(double w) const { return w - top_ - std::log1p(-std::exp(w - top_ - 1e-6)); }

  double expected(double gamma) const {
    double sum = 0;
    for (const double w : weights_) {
      if (std::isfinite(w)) sum += 1 / (1 + std::exp(gamma - f(w)));
    }
    return sum;
  }

  // The largest gamma, 0 at the most, at which as many are expected as are wanted: by bisection.
  double leniency() const {
    double low = -200, gamma = 0;
    const auto wanted = static_cast<double>(outputs_);
    for (int i = 0; i < 60 && expected(gamma) < wanted; ++i) {
      const double middle = (low + gamma) / 2;
      (expected(middle) > wanted ? low : gamma) = middle;
    }
    return gamma;
  }

  std::vector<int64_t> chosen_by(double gamma) {
    std::vector<double> u(weights_.size());
    uniforms_.uniform(u);
    std::vector<int64_t> chosen;
    std::vector<std::pair<double, int64_t>> refused;  // by how narrowly
    auto enough = [&] { return static_cast<int64_t>(chosen.size()) >= outputs_; };
    for (size_t i = 0; i < weights_.size() && !enough(); ++i) {
      if (!std::isfinite(weights_[i])) continue;
      const double surplus = f(weights_[i]) - gamma - std::log(u[i] / (1 - u[i]));
      if (surplus > 0) {
        chosen.push_back(static_cast<int64_t>(i));
      } else {
        refused.emplace_back(surplus, static_cast<int64_t>(i));
      }
    }
    // As many as wanted, exactly: chance may have left a few too few.
    std::sort(refused.rbegin(), refused.rend());
    for (size_t i = 0; i < refused.size() && !enough(); ++i) chosen.push_back(refused[i].second);
    return chosen;
  }

  int64_t outputs_;
  Stream uniforms_;
  std::vector<double> weights_;
  double top_ = -std::numeric_limits<double>::infinity();
};

}  // namespace

MadeProtocol make_rejection(const FilterOptions& options, std::vector<double>, const Streams& streams) {
  return std::make_unique<Rejection>(options, streams);
}

}  // namespace hastings
