// A chosen calibration on disk: calibration.json and calibration.safetensors; its witness is in witness.json.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/data/weights.h"
#include "hastings/gan/choose.h"
#include "numbers.h"

namespace hastings {
namespace {

using nlohmann::json;

json to_json(const Trial& t) {
  return {{"method", t.method},           {"penalty", t.penalty},       {"protocol", t.protocol},
          {"log_loss", t.log_loss},       {"acceptance", t.acceptance}, {"unique", t.unique},
          {"longest_run", t.longest_run}, {"distance", t.distance},     {"distance_error", t.distance_error}};
}

Trial trial_from(const json& j) {
  Trial t;
  t.method = j.at("method").get<std::string>();
  t.penalty = j.at("penalty").get<double>();
  t.protocol = j.at("protocol").get<std::string>();
  t.log_loss = j.at("log_loss").get<double>();
  t.acceptance = j.at("acceptance").get<double>();
  t.unique = j.at("unique").get<double>();
  t.longest_run = j.at("longest_run").get<int64_t>();
  t.distance = j.at("distance").get<double>();
  t.distance_error = j.at("distance_error").get<double>();
  return t;
}

json to_json(const CalibrationQuality& q) {
  return {{"log_loss", q.log_loss},
          {"log_loss_error", q.log_loss_error},
          {"accuracy", q.accuracy},
          {"auc", q.auc},
          {"z", q.z},
          {"slope", q.slope},
          {"odds_fake", q.odds_fake},
          {"odds_real", q.odds_real},
          {"weight_ess", q.weight_ess},
          {"curve_predicted", q.curve_predicted},
          {"curve_observed", q.curve_observed},
          {"curve_error", q.curve_error}};
}

CalibrationQuality quality_from(const json& j) {
  auto number = [&](const char* key) { return j.at(key).is_null() ? INFINITY : j.at(key).get<double>(); };
  CalibrationQuality q;
  q.log_loss = number("log_loss");
  q.log_loss_error = number("log_loss_error");
  q.accuracy = number("accuracy");
  q.auc = number("auc");
  q.z = number("z");
  q.slope = number("slope");
  q.odds_fake = number("odds_fake");
  q.odds_real = number("odds_real");
  q.weight_ess = number("weight_ess");
  q.curve_predicted = j.at("curve_predicted").get<std::vector<double>>();
  q.curve_observed = j.at("curve_observed").get<std::vector<double>>();
  q.curve_error = j.at("curve_error").get<std::vector<double>>();
  return q;
}

}  // namespace

void save_calibration(const std::string& folder, const ChosenCalibration& c) {
  const auto file = [&](const char* name) { return (std::filesystem::path(folder) / name).string(); };
  Weights tensors = {{"real_scores", at::tensor(c.real_scores, at::kDouble)}};
  if (c.calibration.weight.defined()) tensors["weight"] = c.calibration.weight;
  json trials = json::array();
  for (const auto& t : c.trials) trials.push_back(to_json(t));
  const json j = {{"method", c.calibration.method},
                  {"penalty", c.calibration.penalty},
                  {"coefficients", c.calibration.coefficients},
                  {"knots", c.calibration.knots},
                  {"values", c.calibration.values},
                  {"bias", c.calibration.bias},
                  {"protocol", c.protocol},
                  {"space", c.space},
                  {"per_output", c.per_output},
                  {"advised_per_output", c.advised_per_output},
                  {"quality", to_json(c.quality)},
                  {"raw_quality", to_json(c.raw_quality)},
                  {"expected", to_json(c.expected)},
                  {"plain", to_json(c.plain)},
                  {"raw", to_json(c.raw)},
                  {"trials", trials},
                  {"reasons", c.reasons},
                  {"warnings", c.warnings}};
  if (c.calibration.of_witness()) c.calibration.witness->save(file("witness"));
  write_safetensors(file("calibration.safetensors"), tensors);
  write_file(file("calibration.json"), j.dump(2) + "\n");
}

ChosenCalibration load_calibration(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "calibration.json").string();
  if (!std::filesystem::exists(path))
    throw ConfigError(fmt::format("{}: is not calibrated; `hastings gan calibrate` does that", folder));
  const json j = json::parse(read_file(path), nullptr, false);
  const std::string tensor_path = (std::filesystem::path(folder) / "calibration.safetensors").string();
  const Weights tensors = read_weights(tensor_path);
  ChosenCalibration c;
  try {
    c.calibration.method = j.at("method").get<std::string>();
    c.calibration.penalty = j.at("penalty").get<double>();
    c.calibration.coefficients = j.at("coefficients").get<std::vector<double>>();
    c.calibration.knots = j.at("knots").get<std::vector<double>>();
    c.calibration.values = j.at("values").get<std::vector<double>>();
    c.calibration.bias = j.at("bias").get<double>();
    c.protocol = j.at("protocol").get<std::string>();
    c.space = j.at("space").get<std::string>();
    c.per_output = j.at("per_output").get<int64_t>();
    c.advised_per_output = j.at("advised_per_output").get<int64_t>();
    c.quality = quality_from(j.at("quality"));
    c.raw_quality = quality_from(j.at("raw_quality"));
    c.expected = trial_from(j.at("expected"));
    c.plain = trial_from(j.at("plain"));
    c.raw = trial_from(j.at("raw"));
    for (const auto& t : j.at("trials")) c.trials.push_back(trial_from(t));
    c.reasons = j.at("reasons").get<std::vector<std::string>>();
    c.warnings = j.at("warnings").get<std::vector<std::string>>();
    c.real_scores = to_vector(tensors.at("real_scores"));
    if (c.calibration.of_features()) c.calibration.weight = tensors.at("weight");
    if (c.calibration.of_witness())
      c.calibration.witness =
          std::make_shared<FeatureNetwork>((std::filesystem::path(folder) / "witness.json").string());
  } catch (const json::exception&) {
    throw DataError(fmt::format("{}: is damaged", path));
  } catch (const std::out_of_range&) {
    throw DataError(fmt::format("{}: does not belong to {}", tensor_path, path));
  }
  return c;
}

}  // namespace hastings
