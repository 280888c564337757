#include "hastings/gan/filter/sample.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "hastings/gan/filter/filter.h"

namespace hastings {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

std::vector<GanSamples> filter_proposals(const Proposals& proposals, const ChosenCalibration& chosen,
                                         const std::vector<FilterOptions>& protocols, const Streams& streams,
                                         Observer& observer) {
  std::vector<GanSamples> out(protocols.size());
  std::vector<Filter> filters;
  int64_t scored = 0;
  for (const auto& p : protocols) {
    const ProtocolEntry& entry = entry_of(p.protocol);
    filters.emplace_back(p, chosen.real_scores, Streams{streams.seed, streams.phase, entry.number});
    if (!entry.weighed) {
      filters.back().feed(std::vector<double>(static_cast<size_t>(p.outputs * p.per_output), 0.0));
    } else {
      scored = std::max(scored, p.outputs * p.per_output);
    }
  }
  const auto begin = Clock::now();
  double others = 0;
  int64_t fed = 0;
  if (scored > 0) {
    proposals.weigh(
        scored, chosen.calibration,
        [&](const Tensor& weights) {
          for (size_t i = 0; i < protocols.size(); ++i) {
            const int64_t wanted = protocols[i].outputs * protocols[i].per_output - fed;
            if (!entry_of(protocols[i].protocol).weighed || wanted <= 0) continue;
            const auto start = Clock::now();
            filters[i].feed({weights.data_ptr<double>(), static_cast<size_t>(std::min(wanted, weights.size(0)))});
            out[i].other_seconds += seconds_since(start);
            others += seconds_since(start);
          }
          fed += weights.size(0);
        },
        observer);
  }
  const double networks = seconds_since(begin) - others;
  for (size_t i = 0; i < protocols.size(); ++i) {
    const auto start = Clock::now();
    out[i].filtered = filters[i].finish();
    out[i].other_seconds += seconds_since(start);
    out[i].network_seconds = entry_of(protocols[i].protocol).weighed ? networks : 0;
    out[i].warnings = filters[i].warnings(out[i].filtered);
  }
  return out;
}

}  // namespace hastings
