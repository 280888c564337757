// Which calibration and which protocol: chosen from held-out evidence, and said why.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hastings/core/events.h"
#include "hastings/core/output_folder.h"
#include "hastings/gan/calibrate/calibrate.h"
#include "hastings/gan/filter/filter.h"
#include "hastings/gan/network/pair.h"

namespace hastings {

struct CalibrateOptions {
  std::string method = "auto";           // or one of Calibration's
  double penalty = 0.01;                 // where there is a ridge; auto tries several
  std::optional<ProtocolKind> protocol;  // a chain or plain; nothing: what comes nearest to held-out images
  int64_t per_output = 10;               // 0: as many as the chosen chain's autocorrelation asks for
  uint64_t seed = 1;
  int threads = 0;
  // A second opinion: distances are judged in its features, and ratios may use them. Without one, distances are judged
  // in the discriminator's own features.
  std::shared_ptr<const FeatureNetwork> witness;
  void validate() const;
};

// A protocol that a calibration is asked for, or nothing for "auto". ConfigError lists the names.
std::vector<std::string> calibrated_protocols();  // names, "auto" the first
std::optional<ProtocolKind> parse_calibrated_protocol(const std::string& name);

// One way to sample, as it did on data that took no part in its calibration.
struct Trial {
  std::string method;
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

struct ChosenCalibration {
  Calibration calibration;
  ProtocolKind protocol = ProtocolKind::kPlain;  // plain where no filter was better than none
  std::string space;                             // the features it was judged in
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

void save_calibration(OutputFolder& folder, const ChosenCalibration& chosen);
ChosenCalibration load_calibration(const std::string& folder);

}  // namespace hastings
