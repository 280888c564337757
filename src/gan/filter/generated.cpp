// generated: K proposals for each output, the chain started at the first of them.
#include "short_chains.h"

namespace hastings {
namespace {

class Generated final : public ShortChains {
 public:
  using ShortChains::ShortChains;

 private:
  int64_t last_state(std::span<const double> log_weight, std::span<const double> log_u) override {
    return run(log_weight, log_u, {}, info_);
  }
};

}  // namespace

MadeProtocol make_generated(const FilterOptions& options, std::vector<double>, const Streams& streams) {
  return std::make_unique<Generated>(options, streams);
}

}  // namespace hastings
