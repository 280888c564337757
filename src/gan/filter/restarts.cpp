// restarts: K proposals for each output, the chain started at the score of a real image (Turner and others 2019); where
// none is accepted, started again at the first of the K.
#include <fmt/format.h>

#include <algorithm>

#include "hastings/core/error.h"
#include "short_chains.h"

namespace hastings {
namespace {

class Restarts final : public ShortChains {
 public:
  Restarts(const FilterOptions& options, std::vector<double> real_scores, const Streams& streams)
      : ShortChains(options, streams), real_(std::move(real_scores)), starts_(streams(Purpose::kStart)) {
    if (real_.empty()) throw DataError("restarts: there are no scores of real images to start from");
  }

  std::vector<std::string> warnings(const Filtered& f) const override {
    std::vector<std::string> out;
    const auto outputs = static_cast<double>(f.chosen.size());
    if (static_cast<double>(f.stuck) > outputs / 2)
      out.push_back(fmt::format(
          "for {:.0f} % of the outputs no proposal was accepted from the real start: more proposals an output would "
          "help",
          100 * static_cast<double>(f.stuck) / outputs));
    for (auto& text : Protocol::warnings(f)) out.push_back(std::move(text));
    return out;
  }

 private:
  int64_t last_state(std::span<const double> log_weight, std::span<const double> log_u) override {
    ScanState start;
    const auto pick = static_cast<size_t>(starts_.uniform() * static_cast<double>(real_.size()));
    start.log_weight = real_[std::min(pick, real_.size() - 1)];
    const int64_t last = run(log_weight, log_u, start, info_);
    if (last >= 0) return last;
    ++stuck_;
    ScanInfo again;  // counted once
    return run(log_weight, log_u, {}, again);
  }

  std::vector<double> real_;
  Stream starts_;
};

}  // namespace

MadeProtocol make_restarts(const FilterOptions& options, std::vector<double> real_scores, const Streams& streams) {
  return std::make_unique<Restarts>(options, std::move(real_scores), streams);
}

}  // namespace hastings
