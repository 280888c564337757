// The protocols of the filter: which proposals become outputs. Each is one file in src/gan/filter, and an entry here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hastings/core/random.h"

namespace hastings {

enum class ProtocolKind { kPlain, kChain, kRestarts, kGenerated, kRejection, kTop };

struct FilterOptions {
  ProtocolKind protocol = ProtocolKind::kChain;
  int64_t outputs = 10000;
  int64_t per_output = 10;  // K
  void validate() const;
};

struct Filtered {
  std::vector<int64_t> chosen;  // [outputs] the number of the proposal
  int64_t proposals = 0, accepted = 0, non_finite = 0, longest_run = 0;
  int64_t stuck = 0;      // restarts: outputs for which no proposal was accepted from the real start
  double acceptance = 0;  // Rao-Blackwellised; rejection and top: outputs by proposals
  double unique = 0;      // different proposals by outputs
};

class Protocol {
 public:
  virtual ~Protocol() = default;
  // Log weights of the proposals in the order of their numbers.
  virtual void feed(std::span<const double> log_weight) = 0;
  // All but `proposals` and `unique`, which are counted for every protocol alike.
  virtual Filtered finish() = 0;
  // What its user should know of these outputs.
  virtual std::vector<std::string> warnings(const Filtered& filtered) const;
};

struct ProtocolEntry {
  ProtocolKind kind;
  const char *name, *help;
  uint64_t number;  // of its streams
  bool metropolis;  // a Metropolis–Hastings chain; the others are rivals
  bool weighed;     // false: its choice does not depend on log weights
  // `real_scores`: finite log weights of real images.
  std::unique_ptr<Protocol> (*make)(const FilterOptions& options, std::vector<double> real_scores,
                                    const Streams& streams);
};

const std::vector<ProtocolEntry>& protocols();
const ProtocolEntry& entry_of(ProtocolKind kind);
ProtocolKind parse_protocol(const std::string& name);  // ConfigError lists the names
std::string to_string(ProtocolKind kind);
std::vector<std::string> metropolis_protocols();  // names: what a calibration may be asked to choose

}  // namespace hastings
