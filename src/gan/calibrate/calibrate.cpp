#include "hastings/gan/calibrate/calibrate.h"

#include <fmt/format.h>

#include "calibrators.h"
#include "hastings/core/error.h"
#include "hastings/core/registry.h"

namespace hastings {

const std::vector<CalibratorEntry>& calibrators() {
  static const std::vector<CalibratorEntry> all = {none_calibrator(),     platt_calibrator(),        beta_calibrator(),
                                                   isotonic_calibrator(), head_calibrator(),         refit_calibrator(),
                                                   witness_calibrator(),  logit_witness_calibrator()};
  return all;
}

const CalibratorEntry& entry_of(CalibratorKind kind) { return entry_of(calibrators(), kind); }

CalibratorKind parse_calibrator(const std::string& name) { return find_entry(calibrators(), "calibration", name).kind; }

std::string to_string(CalibratorKind kind) { return entry_of(kind).name; }

bool Calibration::of_witness() const { return entry_of(method).looks_at == CalibratorEntry::LooksAt::kWitness; }

bool Calibration::of_features() const { return entry_of(method).with_ridge(); }

Questions Calibration::questions() const {
  return {of_features() && !of_witness(), of_witness() ? witness.get() : nullptr};
}

Tensor Calibration::apply(const Opinions& opinions) const { return entry_of(method).apply(*this, opinions); }

void Calibration::validate() const {
  if (!entry_of(method).complete(*this))
    throw ConfigError(fmt::format("calibration '{}': its numbers are not those it needs", to_string(method)));
}

std::vector<Calibration> fit_calibrations(CalibratorKind method, const std::vector<double>& penalties,
                                          const Opinions& real, const Opinions& fake,
                                          const std::shared_ptr<const FeatureNetwork>& witness) {
  if (real.size() < 50 || fake.size() < 50)
    throw DataError(fmt::format("calibration: {} real and {} generated images are too few", real.size(), fake.size()));
  return entry_of(method).fit({real, fake, penalties, witness}, method);
}

Calibration fit_calibration(CalibratorKind method, double penalty, const Opinions& real, const Opinions& fake) {
  return fit_calibrations(method, {penalty}, real, fake).front();
}

}  // namespace hastings
