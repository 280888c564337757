#include "hastings/baseline/rejection.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "hastings/core/accept.h"
#include "hastings/core/error.h"

namespace hastings {

RejectionResult rejection_sample(const Target& target, const Proposal& proposal, double log_m, int64_t n,
                                 Stream& stream) {
  constexpr int64_t kBlock = 4096;
  RejectionResult out;
  std::vector<Tensor> kept;
  for (int64_t have = 0; have < n;) {
    const Draws draws = proposal.sample(kBlock, stream);
    const Tensor weight = target.log_prob(draws.x) - draws.log_q - log_m;
    const Tensor at_one = at::zeros_like(weight);
    const Tensor rows = accept_mask(stream.uniform({kBlock}).log(), log_ratio(weight, at_one)).nonzero().squeeze(1);
    out.above += at::gt(weight, 1e-12).sum().item<int64_t>();
    // The last block counts up to the draw that completes the number.
    const int64_t used = std::min(rows.size(0), n - have);
    out.candidates += used < rows.size(0) ? rows[used - 1].item<int64_t>() + 1 : kBlock;
    kept.push_back(draws.x.index_select(0, rows.narrow(0, 0, used)));
    have += used;
    if (out.candidates > 1000000 && have == 0)
      throw ConfigError(
          fmt::format("target {}: rejection sampling keeps fewer than one candidate in a million", target.name()));
  }
  out.x = at::cat(kept, 0);
  return out;
}

}  // namespace hastings
