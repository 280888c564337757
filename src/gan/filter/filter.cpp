#include "hastings/gan/filter/filter.h"

#include <cmath>
#include <unordered_set>

#include "hastings/core/error.h"

namespace hastings {

Filter::Filter(const FilterOptions& options, std::vector<double> real_scores, const Streams& streams) {
  options.validate();
  std::erase_if(real_scores, [](double s) { return !std::isfinite(s); });
  protocol_ = entry_of(options.protocol).make(options, std::move(real_scores), streams);
}

void Filter::feed(std::span<const double> log_weight) {
  protocol_->feed(log_weight);
  fed_ += static_cast<int64_t>(log_weight.size());
}

Filtered Filter::finish() {
  Filtered out = protocol_->finish();
  if (out.chosen.empty()) throw NumericalError("no proposal has a finite score");
  out.proposals = fed_;
  const std::unordered_set<int64_t> different(out.chosen.begin(), out.chosen.end());
  out.unique = static_cast<double>(different.size()) / static_cast<double>(out.chosen.size());
  return out;
}

std::vector<std::string> Filter::warnings(const Filtered& filtered) const { return protocol_->warnings(filtered); }

}  // namespace hastings
