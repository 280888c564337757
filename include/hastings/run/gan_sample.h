// `hastings gan sample`: a calibrated GAN's outputs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hastings/core/events.h"
#include "hastings/gan/filter/protocol.h"

namespace hastings {

struct GanSampleRequest {
  std::string run;                       // its folder
  std::string output;                    // folder; empty: RUN/outputs-SEED
  std::optional<ProtocolKind> protocol;  // nothing: as calibrated
  std::optional<int64_t> per_output;     // the same
  int64_t outputs = 10000;
  uint64_t seed = 1;
  bool pictures = false;  // also one PNG an output
  int threads = 0;
};

// What sampling.json says.
struct GanSampleOutcome {
  std::string run, output, protocol, calibration;  // no calibration: every output is as it came
  int64_t outputs = 0, per_output = 0, proposals = 0;
  std::optional<double> acceptance;  // nothing for the plain generator
  double unique = 0;
  int64_t longest_run = 0, stuck_starts = 0, non_finite = 0;
  uint64_t seed = 0;
  double score_seconds = 0, filter_seconds = 0, render_seconds = 0;
  std::vector<std::string> warnings;

  template <class Archive>
  void fields(Archive& a) {
    a("run", run);
    a("output", output);
    a("protocol", protocol);
    a("calibration", calibration);
    a("outputs", outputs);
    a("per_output", per_output);
    a("proposals", proposals);
    a("acceptance", acceptance);
    a("unique", unique);
    a("longest_run", longest_run);
    a("stuck_starts", stuck_starts);
    a("non_finite", non_finite);
    a("seed", seed);
    a("score_seconds", score_seconds);
    a("filter_seconds", filter_seconds);
    a("render_seconds", render_seconds);
    a("warnings", warnings);
  }
};

// Writes samples.npz, grid.png, images/ if asked for, and sampling.json last: without it the samples are not complete.
GanSampleOutcome gan_sample(const GanSampleRequest& request, Observer& observer);

}  // namespace hastings
