#include "hastings/gan/calibrate/choice_file.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "../numbers.h"
#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/core/json.h"
#include "hastings/data/weights.h"
#include "hastings/gan/filter/filter.h"

namespace hastings {

using nlohmann::json;

void to_json(json& j, CalibratorKind method) { j = to_string(method); }
void from_json(const json& j, CalibratorKind& method) { method = parse_calibrator(j.get<std::string>()); }
void to_json(json& j, ProtocolKind protocol) { j = to_string(protocol); }
void from_json(const json& j, ProtocolKind& protocol) { protocol = parse_protocol(j.get<std::string>()); }
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Trial, method, protocol, penalty, log_loss, acceptance, unique, longest_run,
                                   distance, distance_error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CalibrationQuality, log_loss, log_loss_error, accuracy, auc, z, slope, odds_fake,
                                   odds_real, weight_ess, curve_predicted, curve_observed, curve_error)

namespace {

std::vector<double> coefficients(const Calibration& c) {
  std::vector<double> out;
  for (const auto number : entry_of(c.method).coefficients) out.push_back(c.*number);
  return out;
}

void set_coefficients(Calibration& c, const std::vector<double>& stored) {
  const auto& wanted = entry_of(c.method).coefficients;
  if (stored.size() < wanted.size())
    throw ConfigError(fmt::format("calibration '{}': its numbers are not those it needs", to_string(c.method)));
  for (size_t i = 0; i < wanted.size(); ++i) c.*wanted[i] = stored[i];
}

// JSON knows no infinity; it comes back from null.
CalibrationQuality quality_from(json j) {
  for (auto& value : j) {
    if (value.is_null()) value = std::numeric_limits<double>::infinity();
  }
  return j.get<CalibrationQuality>();
}

}  // namespace

void save_calibration(OutputFolder& folder, const ChosenCalibration& c) {
  Weights tensors = {{"real_scores", at::tensor(c.real_scores, at::kDouble)}};
  if (c.calibration.weight.defined()) tensors["weight"] = c.calibration.weight;
  const json j = {{"method", c.calibration.method},
                  {"penalty", c.calibration.penalty},
                  {"coefficients", coefficients(c.calibration)},
                  {"knots", c.calibration.knots},
                  {"values", c.calibration.log_odds},
                  {"bias", c.calibration.bias},
                  {"protocol", c.protocol},
                  {"space", c.space},
                  {"per_output", c.per_output},
                  {"advised_per_output", c.advised_per_output},
                  {"quality", c.quality},
                  {"raw_quality", c.raw_quality},
                  {"expected", c.expected},
                  {"plain", c.plain},
                  {"raw", c.raw},
                  {"trials", c.trials},
                  {"reasons", c.reasons},
                  {"warnings", c.warnings}};
  folder.remove("calibration.json");  // until all of the new one is there
  if (c.calibration.of_witness()) {
    folder.file("witness.safetensors");
    const std::string description = folder.file("witness.json");
    c.calibration.witness->save(description.substr(0, description.size() - 5));
  }
  write_safetensors(folder.file("calibration.safetensors"), tensors);
  write_file(folder.file("calibration.json"), j.dump(2) + "\n");
}

ChosenCalibration load_calibration(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "calibration.json").string();
  if (!std::filesystem::exists(path))
    throw ConfigError(fmt::format("{}: is not calibrated; `hastings gan calibrate` does that", folder));
  const json j = read_json(path);
  const std::string tensor_path = (std::filesystem::path(folder) / "calibration.safetensors").string();
  const Weights tensors = read_weights(tensor_path);
  ChosenCalibration c;
  try {
    c.calibration.method = j.at("method").get<CalibratorKind>();
    c.calibration.penalty = j.at("penalty").get<double>();
    set_coefficients(c.calibration, j.at("coefficients").get<std::vector<double>>());
    c.calibration.knots = j.at("knots").get<std::vector<double>>();
    c.calibration.log_odds = j.at("values").get<std::vector<double>>();
    c.calibration.bias = j.at("bias").get<double>();
    c.protocol = j.at("protocol").get<ProtocolKind>();
    c.space = j.at("space").get<std::string>();
    c.per_output = j.at("per_output").get<int64_t>();
    c.advised_per_output = j.at("advised_per_output").get<int64_t>();
    c.quality = quality_from(j.at("quality"));
    c.raw_quality = quality_from(j.at("raw_quality"));
    j.at("expected").get_to(c.expected);
    j.at("plain").get_to(c.plain);
    j.at("raw").get_to(c.raw);
    j.at("trials").get_to(c.trials);
    c.reasons = j.at("reasons").get<std::vector<std::string>>();
    c.warnings = j.at("warnings").get<std::vector<std::string>>();
    c.real_scores = to_vector(tensors.at("real_scores"));
    if (c.calibration.of_features()) c.calibration.weight = tensors.at("weight");
    if (c.calibration.of_witness())
      c.calibration.witness =
          std::make_shared<FeatureNetwork>((std::filesystem::path(folder) / "witness.json").string());
    c.calibration.validate();
    FilterOptions filter;
    filter.protocol = c.protocol;
    filter.per_output = c.per_output;
    filter.validate();
  } catch (const json::exception&) {
    throw DataError(fmt::format("{}: is damaged", path));
  } catch (const ConfigError& error) {
    throw DataError(fmt::format("{}: {}", path, error.what()));
  } catch (const std::out_of_range&) {
    throw DataError(fmt::format("{}: does not belong to {}", tensor_path, path));
  }
  return c;
}

}  // namespace hastings
