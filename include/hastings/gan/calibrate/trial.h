// A way to sample on trial: a calibration and a protocol, as they did on held-out images.
#pragma once

#include <cstdint>
#include <string>

#include "hastings/gan/calibrate/calibrate.h"
#include "hastings/gan/filter/protocol.h"

namespace hastings {

// Measured on data that took no part in the calibration.
struct Trial {
  CalibratorKind method = CalibratorKind::kNone;
  ProtocolKind protocol = ProtocolKind::kPlain;
  double penalty = 0;
  double log_loss = 0;                // a proper score of the ratio
  double acceptance = 0, unique = 0;  // overlap
  int64_t longest_run = 0;
  double distance = 0;        // of what the protocol gives from held-out reals: Fréchet
  double distance_error = 0;  // from independent parts of the proposals
  bool sound() const;         // better than a constant by the proper score, and overlap enough for the chain to move
  int overlap() const;        // 0: not sound, 1: enough, 2: good
  double farthest() const;    // two errors beyond the distance
  std::string name() const;   // "head (C = 0.01), chain"
};

}  // namespace hastings
