// chain: one long chain over all proposals, every K-th state.
#include <fmt/format.h>

#include <algorithm>

#include "../numbers.h"
#include "hastings/core/accept.h"
#include "protocols.h"

namespace hastings {
namespace {

constexpr double kStuck = 0.5, kRepeats = 0.8;  // shares of different outputs below which the user is told

class Chain final : public Protocol {
 public:
  Chain(const FilterOptions& options, const Streams& streams)
      : per_output_(options.per_output), uniforms_(streams(Purpose::kAccept)) {}

  void feed(std::span<const double> log_weight) override {
    std::vector<double> log_u(log_weight.size()), stat(log_weight.size());
    std::vector<int64_t> held(log_weight.size());
    log_uniforms(uniforms_, log_u);
    scan(log_weight, log_u, state_, info_, held, stat);
    for (size_t i = 0; i < held.size(); ++i) {
      const int64_t number = fed_ + static_cast<int64_t>(i), state = held[i] < 0 ? held_ : fed_ + held[i];
      if (number % per_output_ == per_output_ - 1) chosen_.push_back(state < 0 ? number : state);
    }
    if (!held.empty() && held.back() >= 0) held_ = fed_ + held.back();
    fed_ += static_cast<int64_t>(log_weight.size());
  }

  Filtered finish() override {
    Filtered out;
    out.accepted = info_.accepted;
    out.non_finite = info_.non_finite;
    out.longest_run = std::max(info_.longest_run, state_.run);
    out.acceptance = info_.acceptance_sum / static_cast<double>(fed_);
    out.chosen = std::move(chosen_);
    return out;
  }

  std::vector<std::string> warnings(const Filtered& f) const override {
    std::vector<std::string> out;
    const int64_t long_run = std::max(f.proposals / 20, 10 * per_output_);  // a twentieth, and ten outputs
    if (f.unique < kStuck || f.longest_run > long_run)
      out.push_back(fmt::format(
          "the chain is stuck: acceptance {:.2g}, {:.0f} % of the outputs are repeats, one proposal was held for "
          "{} steps. These samples do not represent the target; calibrate with `hastings gan calibrate` (auto), "
          "take more proposals an output, or use --protocol restarts",
          f.acceptance, 100 * (1 - f.unique), f.longest_run));
    else if (f.unique < kRepeats)
      out.push_back(fmt::format("{:.0f} % of the outputs are repeats: more proposals an output would make them differ",
                                100 * (1 - f.unique)));
    for (auto& text : Protocol::warnings(f)) out.push_back(std::move(text));
    return out;
  }

 private:
  int64_t per_output_;
  Stream uniforms_;
  ScanState state_;
  ScanInfo info_;
  int64_t fed_ = 0, held_ = -1;  // the proposal that is the state; -1: none yet
  std::vector<int64_t> chosen_;
};

}  // namespace

MadeProtocol make_chain(const FilterOptions& options, std::vector<double>, const Streams& streams) {
  return std::make_unique<Chain>(options, streams);
}

}  // namespace hastings
