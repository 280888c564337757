// A short chain over K proposals for each output: what restarts and generated share. They differ in its start.
#pragma once

#include "hastings/core/accept.h"
#include "protocols.h"

namespace hastings {

class ShortChains : public Protocol {
 public:
  ShortChains(const FilterOptions& options, const Streams& streams)
      : per_output_(options.per_output), uniforms_(streams(Purpose::kAccept)) {}
  void feed(std::span<const double> log_weight) override;
  Filtered finish() override;

 protected:
  // The last state of one chain: a place among the K, or -1 while the start holds.
  virtual int64_t last_state(std::span<const double> log_weight, std::span<const double> log_u) = 0;
  static int64_t run(std::span<const double> log_weight, std::span<const double> log_u, ScanState start,
                     ScanInfo& info);

  ScanInfo info_;
  int64_t stuck_ = 0;

 private:
  int64_t per_output_, fed_ = 0;
  Stream uniforms_;
  std::vector<double> kept_;  // weights that do not fill an output yet
  std::vector<int64_t> chosen_;
};

}  // namespace hastings
