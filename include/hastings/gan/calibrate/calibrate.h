// From the discriminator's opinion to a log density ratio that can be trusted: the log weight of the accept rule.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hastings/core/tensor.h"
#include "hastings/gan/network/features.h"

namespace hastings {

// What is asked about images beside the discriminator's logit.
struct Questions {
  bool features = false;                    // what its last layer sees
  const FeatureNetwork* witness = nullptr;  // what another network sees
};

// What the discriminator says of images, and a witness.
struct Opinions {
  Tensor logits;         // [n] double
  Tensor features = {};  // [n, width] float: what its last layer sees, or where it hides that the image at 8x8
  Tensor witness = {};   // [n, width] float: what the witness sees; both undefined where not asked for
  int64_t size() const;
  Opinions rows(int64_t from, int64_t count) const;
};

// A monotone map of the logit, or a new last layer.
//   none      the logit as it is
//   platt     a logit + b
//   beta      a log d + b log(1 - d) + c (Kull and others 2017)
//   isotonic  any rising function (pool adjacent violators), linear between its steps
//   head      the last layer reset and learned by cross-entropy (the paper's way), with a ridge penalty on standardised
//             features
//   refit     the last layer refined: the old logit with a free slope, plus a head
//   witness, logit+witness  the same two on the features of a witness, a network that was shown other things than the
//             discriminator (a classifier of the data's labels)
struct Calibration {
  std::string method = "none";
  double penalty = 0;                 // of the ridge on features: C, inverse strength
  std::vector<double> coefficients;   // platt a, b; beta a, b, c; refit, logit+witness: slope of the logit
  std::vector<double> knots, values;  // isotonic: logits and their log odds
  Tensor weight;                      // [width] double: of the features
  double bias = 0;
  std::shared_ptr<const FeatureNetwork> witness;

  static bool of_witness(const std::string& method) { return method == "witness" || method == "logit+witness"; }
  static bool of_features(const std::string& method) {
    return method == "head" || method == "refit" || of_witness(method);
  }
  bool of_witness() const { return of_witness(method); }
  bool of_features() const { return of_features(method); }
  bool with_logit() const { return method == "refit" || method == "logit+witness"; }
  Questions questions() const { return {of_features() && !of_witness(), of_witness() ? witness.get() : nullptr}; }
  Tensor apply(const Opinions& opinions) const;  // [n] double: log p/q up to a constant
  void validate() const;                         // its numbers are those its method needs
};

// Learned to convergence, real against generated, both weighing the same; one for each penalty. NumericalError if it
// does not converge. `witness` is the network that saw Opinions::witness.
std::vector<Calibration> fit_calibrations(const std::string& method, const std::vector<double>& penalties,
                                          const Opinions& real, const Opinions& fake,
                                          const std::shared_ptr<const FeatureNetwork>& witness = nullptr);
Calibration fit_calibration(const std::string& method, double penalty, const Opinions& real, const Opinions& fake);

// How good calibrated log ratios are, on data that took no part in the calibration.
struct CalibrationQuality {
  double log_loss = 0;        // a proper score; log 2 is what a constant gets
  double log_loss_error = 0;  // its standard error
  double accuracy = 0, auc = 0;
  double z = 0;           // sum (y - d) / sqrt(sum d (1 - d)): standard normal if calibrated (Turner and others 2019)
  double slope = 0;       // of a logistic regression of the truth on the log ratio: 1 if calibrated
  double odds_fake = 0;   // E over generated of d/(1-d): 1 if right
  double odds_real = 0;   // E over real of (1-d)/d: 1 if right
  double weight_ess = 0;  // effective share of generated samples under the weights
  std::vector<double> curve_predicted, curve_observed, curve_error;  // reliability, in bins of equal count
};
CalibrationQuality calibration_quality(const Tensor& real, const Tensor& fake);

}  // namespace hastings
