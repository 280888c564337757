#include "short_chains.h"

#include <algorithm>

#include "../numbers.h"

namespace hastings {

void ShortChains::feed(std::span<const double> log_weight) {
  kept_.insert(kept_.end(), log_weight.begin(), log_weight.end());
  fed_ += static_cast<int64_t>(log_weight.size());
  const auto k = static_cast<size_t>(per_output_);
  std::vector<double> log_u(k);
  size_t used = 0;
  int64_t first = fed_ - static_cast<int64_t>(kept_.size());
  for (; used + k <= kept_.size(); used += k, first += per_output_) {
    log_uniforms(uniforms_, log_u);
    const int64_t last = last_state(std::span(kept_).subspan(used, k), log_u);
    chosen_.push_back(first + std::max<int64_t>(last, 0));
  }
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(used));
}

int64_t ShortChains::run(std::span<const double> log_weight, std::span<const double> log_u, ScanState start,
                         ScanInfo& info) {
  std::vector<double> stat(log_weight.size());
  std::vector<int64_t> held(log_weight.size());
  scan(log_weight, log_u, start, info, held, stat);
  return held.back();
}

Filtered ShortChains::finish() {
  Filtered out;
  out.accepted = info_.accepted;
  out.non_finite = info_.non_finite;
  out.longest_run = info_.longest_run;
  out.acceptance = info_.acceptance_sum / static_cast<double>(fed_);
  out.stuck = stuck_;
  out.chosen = std::move(chosen_);
  return out;
}

}  // namespace hastings
