#include "hastings/gan/filter/protocol.h"

#include <fmt/format.h>

#include "hastings/core/error.h"
#include "hastings/core/registry.h"
#include "protocols.h"

namespace hastings {

// The numbers are of streams: with another one, a protocol gives other outputs.
const std::vector<ProtocolEntry>& protocols() {
  static const std::vector<ProtocolEntry> all = {
      {ProtocolKind::kPlain, "plain", "every K-th proposal as it comes", 0, false, false, make_plain},
      {ProtocolKind::kChain, "chain", "one long chain, every K-th state", 1, true, true, make_chain},
      {ProtocolKind::kRestarts, "restarts", "a chain of K proposals an output, from the score of a real image", 2, true,
       true, make_restarts},
      {ProtocolKind::kGenerated, "generated", "the same, from the first of the K", 3, true, true, make_generated},
      {ProtocolKind::kRejection, "rejection", "discriminator rejection sampling", 4, false, true, make_rejection},
      {ProtocolKind::kTop, "top", "the proposals with the highest scores", 5, false, true, make_top}};
  return all;
}

const ProtocolEntry& entry_of(ProtocolKind kind) { return entry_of(protocols(), kind); }

ProtocolKind parse_protocol(const std::string& name) { return find_entry(protocols(), "protocol", name).kind; }

std::string to_string(ProtocolKind kind) { return entry_of(kind).name; }

std::vector<std::string> metropolis_protocols() {
  std::vector<std::string> out;
  for (const auto& p : protocols()) {
    if (p.metropolis) out.emplace_back(p.name);
  }
  return out;
}

void FilterOptions::validate() const {
  constexpr int64_t kMost = 1000000000;
  if (outputs < 1 || outputs > kMost)
    throw ConfigError(fmt::format("outputs {}: must be positive, {} at the most", outputs, kMost));
  if (per_output < 1 || per_output > kMost / 1000)
    throw ConfigError(
        fmt::format("proposals per output {}: must be positive, {} at the most", per_output, kMost / 1000));
}

std::vector<std::string> Protocol::warnings(const Filtered& filtered) const {
  if (filtered.non_finite == 0) return {};
  return {fmt::format("{} proposals had a score that is not finite; they were rejected", filtered.non_finite)};
}

}  // namespace hastings
