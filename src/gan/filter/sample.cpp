#include "hastings/gan/filter/sample.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace hastings {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::vector<std::string> warnings_of(const Filtered& f, const FilterOptions& options) {
  std::vector<std::string> out;
  const auto outputs = static_cast<double>(f.chosen.size());
  const int64_t long_run = std::max(f.proposals / 20, 10 * options.per_output);  // a twentieth, and ten outputs
  if (options.protocol == "chain" && (f.unique < 0.5 || f.longest_run > long_run))
    out.push_back(fmt::format(
        "the chain is stuck: acceptance {:.2g}, {:.0f} % of the outputs are repeats, one proposal was held for "
        "{} steps. These samples do not represent the target; calibrate with `hastings gan calibrate` (auto), "
        "take more proposals an output, or use --protocol restarts",
        f.acceptance, 100 * (1 - f.unique), f.longest_run));
  else if (options.protocol == "chain" && f.unique < 0.8)
    out.push_back(fmt::format("{:.0f} % of the outputs are repeats: more proposals an output would make them differ",
                              100 * (1 - f.unique)));
  if (static_cast<double>(f.stuck) > outputs / 2)
    out.push_back(fmt::format(
        "for {:.0f} % of the outputs no proposal was accepted from the real start: more proposals an output would help",
        100 * static_cast<double>(f.stuck) / outputs));
  if (f.non_finite > 0)
    out.push_back(fmt::format("{} proposals had a score that is not finite; they were rejected", f.non_finite));
  return out;
}

}  // namespace

std::vector<GanSamples> filter_proposals(const Proposals& proposals, const ChosenCalibration& chosen,
                                         const std::vector<FilterOptions>& protocols, const Streams& streams,
                                         Observer& observer) {
  std::vector<GanSamples> out(protocols.size());
  std::vector<Filter> filters;
  int64_t scored = 0;
  for (const auto& p : protocols) {
    filters.emplace_back(p, chosen.real_scores, Streams{streams.seed, streams.phase, protocol_number(p.protocol)});
    if (p.protocol == "plain") {  // nobody asks for their scores
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
            if (protocols[i].protocol == "plain" || wanted <= 0) continue;
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
    out[i].network_seconds = protocols[i].protocol == "plain" ? 0 : networks;
    out[i].warnings = warnings_of(out[i].filtered, protocols[i]);
  }
  return out;
}

}  // namespace hastings
