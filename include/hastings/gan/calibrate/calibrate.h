// From the discriminator's opinion to a log density ratio that can be trusted: the log weight of the accept rule. Each
// way is one file in src/gan/calibrate, and an entry here.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hastings/core/tensor.h"
#include "hastings/gan/calibrate/opinions.h"

namespace hastings {

enum class CalibratorKind { kNone, kPlatt, kBeta, kIsotonic, kHead, kRefit, kWitness, kLogitWitness };

// A monotone map of the logit, or a new last layer. Only the numbers of its method are of use.
struct Calibration {
  CalibratorKind method = CalibratorKind::kNone;
  double penalty = 0;                             // of the ridge on features: C, inverse strength
  double slope = 0;                               // of the logit
  double log_d_slope = 0, log_not_d_slope = 0;    // beta: of log d, and of -log(1 - d)
  double offset = 0;                              // platt, beta
  std::vector<double> knots = {}, log_odds = {};  // isotonic: logits, rising, and the log odds there
  Tensor weight = {};                             // [width] double: of the features
  double bias = 0;                                // beside the features
  std::shared_ptr<const FeatureNetwork> witness = {};

  bool of_witness() const;
  bool of_features() const;  // its own or a witness's
  Questions questions() const;
  Tensor apply(const Opinions& opinions) const;  // [n] double: log p/q up to a constant
  void validate() const;                         // its numbers are those its method needs
};

// What a calibration is learned from, real against generated.
struct CalibrationData {
  const Opinions &real, &fake;
  const std::vector<double>& penalties;           // one calibration for each, where there is a ridge
  std::shared_ptr<const FeatureNetwork> witness;  // the network that saw Opinions::witness
};

struct CalibratorEntry {
  enum class LooksAt { kLogit, kFeatures, kWitness };

  CalibratorKind kind;
  const char *name, *help;
  LooksAt looks_at;
  std::vector<double Calibration::*> coefficients;  // the numbers it needs, as they are stored one after the other
  std::vector<Calibration> (*fit)(const CalibrationData& data, CalibratorKind kind);
  Tensor (*apply)(const Calibration& calibration, const Opinions& opinions);
  bool (*complete)(const Calibration& calibration);  // has the other numbers it needs

  bool with_ridge() const { return looks_at != LooksAt::kLogit; }
};

const std::vector<CalibratorEntry>& calibrators();
const CalibratorEntry& entry_of(CalibratorKind kind);
CalibratorKind parse_calibrator(const std::string& name);  // ConfigError lists the names
std::string to_string(CalibratorKind kind);

// Learned to convergence, both classes weighing the same; one for each penalty. NumericalError if it does not converge.
std::vector<Calibration> fit_calibrations(CalibratorKind method, const std::vector<double>& penalties,
                                          const Opinions& real, const Opinions& fake,
                                          const std::shared_ptr<const FeatureNetwork>& witness = nullptr);
Calibration fit_calibration(CalibratorKind method, double penalty, const Opinions& real, const Opinions& fake);

}  // namespace hastings
