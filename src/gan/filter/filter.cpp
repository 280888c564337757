#include "hastings/gan/filter/filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "../calibrate/numbers.h"
#include "hastings/core/error.h"

namespace hastings {

uint64_t protocol_number(const std::string& protocol) {
  static const std::vector<std::string> all = {"plain", "chain", "restarts", "generated", "rejection", "top"};
  const auto found = std::find(all.begin(), all.end(), protocol);
  if (found == all.end())
    throw ConfigError(
        fmt::format("protocol '{}': must be plain, chain, restarts, generated, rejection or top", protocol));
  return static_cast<uint64_t>(found - all.begin());
}

void FilterOptions::validate() const {
  protocol_number(protocol);
  constexpr int64_t kMost = 1000000000;
  if (outputs < 1 || outputs > kMost)
    throw ConfigError(fmt::format("outputs {}: must be positive, {} at the most", outputs, kMost));
  if (per_output < 1 || per_output > kMost / 1000)
    throw ConfigError(
        fmt::format("proposals per output {}: must be positive, {} at the most", per_output, kMost / 1000));
}

Filter::Filter(const FilterOptions& options, std::vector<double> real_scores, const Streams& streams)
    : options_(options),
      real_(std::move(real_scores)),
      uniforms_(streams(Purpose::kAccept)),
      starts_(streams(Purpose::kStart)) {
  options_.validate();
  std::erase_if(real_, [](double s) { return !std::isfinite(s); });
  if (options_.protocol == "restarts" && real_.empty())
    throw DataError("restarts: there are no scores of real images to start from");
  out_.chosen.reserve(static_cast<size_t>(options_.outputs));
}

void Filter::feed(std::span<const double> log_weight) {
  if (options_.protocol == "chain") {
    feed_chain(log_weight);
  } else if (options_.protocol == "restarts" || options_.protocol == "generated") {
    feed_restarts(log_weight);
  } else if (options_.protocol == "plain") {
    for (size_t i = 0; i < log_weight.size(); ++i) {
      const int64_t number = fed_ + static_cast<int64_t>(i);
      if (number % options_.per_output == options_.per_output - 1) out_.chosen.push_back(number);
    }
  } else {
    kept_.insert(kept_.end(), log_weight.begin(), log_weight.end());
  }
  fed_ += static_cast<int64_t>(log_weight.size());
}

void Filter::feed_chain(std::span<const double> log_weight) {
  std::vector<double> log_u(log_weight.size()), stat(log_weight.size());
  std::vector<int64_t> held(log_weight.size());
  log_uniforms(uniforms_, log_u);
  scan(log_weight, log_u, state_, info_, held, stat);
  for (size_t i = 0; i < held.size(); ++i) {
    const int64_t number = fed_ + static_cast<int64_t>(i), state = held[i] < 0 ? held_ : fed_ + held[i];
    if (number % options_.per_output == options_.per_output - 1) out_.chosen.push_back(state < 0 ? number : state);
  }
  if (!held.empty() && held.back() >= 0) held_ = fed_ + held.back();
}

void Filter::feed_restarts(std::span<const double> log_weight) {
  kept_.insert(kept_.end(), log_weight.begin(), log_weight.end());
  const auto k = static_cast<size_t>(options_.per_output);
  size_t used = 0;
  int64_t first = fed_ + static_cast<int64_t>(log_weight.size()) - static_cast<int64_t>(kept_.size());
  for (; used + k <= kept_.size(); used += k, first += options_.per_output)
    one_restart(std::span(kept_).subspan(used, k), first);
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(used));
}

void Filter::one_restart(std::span<const double> log_weight, int64_t first) {
  std::vector<double> log_u(log_weight.size()), stat(log_weight.size());
  std::vector<int64_t> held(log_weight.size());
  log_uniforms(uniforms_, log_u);
  if (options_.protocol == "restarts") {
    ScanState state;
    const auto pick = static_cast<size_t>(starts_.uniform() * static_cast<double>(real_.size()));
    state.log_weight = real_[std::min(pick, real_.size() - 1)];
    scan(log_weight, log_u, state, info_, held, stat);
    if (held.back() >= 0) {
      out_.chosen.push_back(first + held.back());
      return;
    }
    ++out_.stuck;
    ScanInfo again;  // counted once
    ScanState fresh;
    scan(log_weight, log_u, fresh, again, held, stat);
  } else {
    ScanState fresh;
    scan(log_weight, log_u, fresh, info_, held, stat);
  }
  out_.chosen.push_back(first + std::max<int64_t>(held.back(), 0));
}

// Accepted with probability sigmoid(F), F = w - M - log(1 - e^{w - M - eps}) - gamma. With gamma = 0 that is e^{w - M},
// rejection sampling proper; where it leaves too few, gamma < 0 is more lenient.
void Filter::choose_by_rejection() {
  double top = -std::numeric_limits<double>::infinity();
  for (const double w : kept_) {
    if (std::isfinite(w)) top = std::max(top, w);
  }
  auto f = [&](double w) { return w - top - std::log1p(-std::exp(w - top - 1e-6)); };
  auto expected = [&](double gamma) {
    double sum = 0;
    for (const double w : kept_) {
      if (std::isfinite(w)) sum += 1 / (1 + std::exp(gamma - f(w)));
    }
    return sum;
  };
  double low = -200, gamma = 0;
  const auto wanted = static_cast<double>(options_.outputs);
  for (int i = 0; i < 60 && expected(gamma) < wanted; ++i) {
    const double middle = (low + gamma) / 2;
    (expected(middle) > wanted ? low : gamma) = middle;
  }
  std::vector<double> u(kept_.size());
  uniforms_.uniform(u);
  std::vector<std::pair<double, int64_t>> refused;  // by how narrowly
  for (size_t i = 0; i < kept_.size() && static_cast<int64_t>(out_.chosen.size()) < options_.outputs; ++i) {
    if (!std::isfinite(kept_[i])) continue;
    const double surplus = f(kept_[i]) - gamma - std::log(u[i] / (1 - u[i]));
    if (surplus > 0) {
      out_.chosen.push_back(static_cast<int64_t>(i));
    } else {
      refused.emplace_back(surplus, static_cast<int64_t>(i));
    }
  }
  // As many as wanted, exactly: chance may have left a few too few.
  std::sort(refused.rbegin(), refused.rend());
  for (size_t i = 0; i < refused.size() && static_cast<int64_t>(out_.chosen.size()) < options_.outputs; ++i)
    out_.chosen.push_back(refused[i].second);
}

void Filter::choose_top() {
  std::vector<int64_t> order(kept_.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](int64_t i) { return !std::isfinite(kept_[static_cast<size_t>(i)]); });
  const auto count = std::min(order.size(), static_cast<size_t>(options_.outputs));
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
      [&](int64_t a, int64_t b) { return kept_[static_cast<size_t>(a)] > kept_[static_cast<size_t>(b)]; });
  out_.chosen.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
}

Filtered Filter::finish() {
  const bool mh = options_.protocol == "chain" || options_.protocol == "restarts" || options_.protocol == "generated";
  if (options_.protocol == "rejection") choose_by_rejection();
  if (options_.protocol == "top") choose_top();
  if (out_.chosen.empty()) throw NumericalError("no proposal has a finite score");
  out_.proposals = fed_;
  out_.accepted = mh ? info_.accepted : static_cast<int64_t>(out_.chosen.size());
  out_.non_finite = info_.non_finite;
  out_.longest_run = mh ? std::max(info_.longest_run, options_.protocol == "chain" ? state_.run : int64_t{0}) : 1;
  const auto fed = static_cast<double>(fed_), outputs = static_cast<double>(out_.chosen.size());
  out_.acceptance = mh ? info_.acceptance_sum / fed : outputs / fed;
  out_.unique =
      static_cast<double>(std::unordered_set<int64_t>(out_.chosen.begin(), out_.chosen.end()).size()) / outputs;
  return std::move(out_);
}

}  // namespace hastings
