// Which calibration and which protocol: chosen from held-out evidence, and said why.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hastings/core/events.h"
#include "hastings/gan/calibrate/calibrate.h"
#include "hastings/gan/calibrate/quality.h"
#include "hastings/gan/calibrate/trial.h"
#include "hastings/gan/network/pair.h"

namespace hastings {

struct CalibrateOptions {
  std::optional<CalibratorKind> method;  // nothing: what comes nearest to held-out images
  double penalty = 0.01;                 // where there is a ridge; without a method several are tried
  std::optional<ProtocolKind> protocol;  // a chain or plain; nothing: what comes nearest
  int64_t per_output = 10;               // 0: as many as the chosen chain's autocorrelation asks for
  uint64_t seed = 1;
  int threads = 0;
  // A second opinion: distances are taken in its features, and ratios may use them. Without one, distances are taken in
  // the discriminator's own features.
  std::shared_ptr<const FeatureNetwork> witness;
  void validate() const;
};

// Names that a calibration may be asked for, "auto" the first: nothing. ConfigError lists them.
std::vector<std::string> calibrated_methods();
std::optional<CalibratorKind> parse_calibrated_method(const std::string& name);
std::vector<std::string> calibrated_protocols();
std::optional<ProtocolKind> parse_calibrated_protocol(const std::string& name);

struct ChosenCalibration {
  Calibration calibration;
  ProtocolKind protocol = ProtocolKind::kPlain;  // plain where no filter was better than none
  std::string space;                             // the features of the distance
  int64_t per_output = 10;
  int64_t advised_per_output = 10;  // proposals an output at which a chain repeats one output in twenty
  std::vector<double> real_scores;  // calibrated log weights of held-out reals: where restarts start
  CalibrationQuality quality, raw_quality;
  Trial expected, plain, raw;  // the choice, no filter at all, and the discriminator's own logits in a chain
  std::vector<Trial> trials;   // all that was tried, the best first
  std::vector<std::string> reasons, warnings;
};

// `real`: the calibration split, uint8 [n, c, h, w].
ChosenCalibration choose_calibration(const Pair& pair, const Tensor& real, const CalibrateOptions& options,
                                     Observer& observer);

}  // namespace hastings
