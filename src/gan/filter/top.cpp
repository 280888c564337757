// top: the proposals with the highest scores.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "protocols.h"

namespace hastings {
namespace {

class Top final : public Protocol {
 public:
  explicit Top(const FilterOptions& options) : outputs_(options.outputs) {}

  void feed(std::span<const double> log_weight) override {
    weights_.insert(weights_.end(), log_weight.begin(), log_weight.end());
  }

  Filtered finish() override {
    auto weight = [&](int64_t i) { return weights_[static_cast<size_t>(i)]; };
    std::vector<int64_t> order(weights_.size());
    std::iota(order.begin(), order.end(), 0);
    std::erase_if(order, [&](int64_t i) { return !std::isfinite(weight(i)); });
    const auto end = order.begin() + std::min(static_cast<std::ptrdiff_t>(order.size()), outputs_);
    std::partial_sort(order.begin(), end, order.end(), [&](int64_t a, int64_t b) { return weight(a) > weight(b); });
    Filtered out;
    out.chosen.assign(order.begin(), end);
    out.accepted = static_cast<int64_t>(out.chosen.size());
    out.acceptance = static_cast<double>(out.chosen.size()) / static_cast<double>(weights_.size());
    out.longest_run = 1;
    return out;
  }

 private:
  int64_t outputs_;
  std::vector<double> weights_;
};

}  // namespace

MadeProtocol make_top(const FilterOptions& options, std::vector<double>, const Streams&) {
  return std::make_unique<Top>(options);
}

}  // namespace hastings
