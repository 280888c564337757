#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/core/json.h"
#include "hastings/core/objectives.h"
#include "hastings/diagnose/weights.h"
#include "hastings/io/run_folder.h"

namespace hastings {

using nlohmann::json;

namespace {

// JSON has no NaN: such figures are null.
json number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

}  // namespace

void to_json(json& j, const RunSummary& s) {
  json parameters = json::array();
  for (const auto& p : s.parameters) {
    parameters.push_back({{"name", p.name},
                          {"mean", number(p.mean)},
                          {"mcse", number(p.mcse)},
                          {"sd", number(p.sd)},
                          {"mad", number(p.mad)},
                          {"q5", number(p.q5)},
                          {"q50", number(p.q50)},
                          {"q95", number(p.q95)},
                          {"ess_bulk", number(p.ess_bulk)},
                          {"ess_tail", number(p.ess_tail)},
                          {"rhat", number(p.rhat)}});
  }
  j = {{"parameters", parameters},
       {"chains", s.chains},
       {"draws", s.draws},
       {"acceptance", number(s.acceptance)},
       {"acceptance_interval", {number(s.acceptance_low), number(s.acceptance_high)}},
       {"acceptance_lower_bound", number(s.acceptance_bound)},
       {"log_evidence", number(s.log_z)},
       {"log_evidence_error", number(s.log_z_error)},
       {"pareto_k", number(s.pareto_k)},
       {"weight_share", number(s.weight_share)},
       {"longest_run", s.longest_run},
       {"non_finite", s.non_finite},
       {"proposed", s.proposed},
       {"learned_acceptance", number(s.learned_acceptance)},
       {"learn_seconds", number(s.learn_seconds)},
       {"sample_seconds", number(s.sample_seconds)},
       {"min_ess_bulk", number(s.min_ess_bulk)},
       {"min_ess_tail", number(s.min_ess_tail)},
       {"max_rhat", number(s.max_rhat)},
       {"ess_per_second", number(s.ess_per_second)},
       {"ess_per_second_with_learning", number(s.ess_per_second_with_learning)},
       {"mixing_steps", s.mixing_steps < 0 ? json(nullptr) : json(s.mixing_steps)},
       {"pairs_not_met", s.pairs_not_met},
       {"local_moves", s.local_moves},
       {"local_share", number(s.local_share)},
       {"independent_acceptance", number(s.independent_acceptance)},
       {"good", s.good},
       {"verdict", s.verdict}};
}

RunSummary summarise_run(const Target& target, const SampleOptions& options, const SampleReport& report,
                         const RunWriter& writer, const StoredFit& stored) {
  RunSummary s;
  s.chains = options.chains;
  s.draws = options.draws;
  s.learn_seconds = stored.learn_seconds;
  s.learned_acceptance = options.local_moves == LocalMoves::kNone ? stored.learned_acceptance : 0;
  s.sample_seconds = report.seconds;
  s.parameters = summarise_parameters(writer.names(), [&](int64_t i) { return writer.column(i); });
  if (writer.diagnosed() < options.draws) {
    // What the blocks say of the autocorrelation holds for the whole chain; mean and spread are those of all draws.
    const double times = static_cast<double>(options.draws) / static_cast<double>(writer.diagnosed());
    for (size_t i = 0; i < s.parameters.size(); ++i) {
      auto& p = s.parameters[i];
      writer.moments(static_cast<int64_t>(i), p.mean, p.sd);
      p.ess_bulk *= times;
      p.ess_tail *= times;
      p.mcse /= std::sqrt(times);
    }
  }
  acceptance_interval(writer.column(-2), s.acceptance, s.acceptance_low, s.acceptance_high);
  std::vector<double> weights;
  double local = 0, accepted = 0;
  for (const auto& chain : report.chains) {
    local += static_cast<double>(chain.local_steps);
    accepted += chain.scan.acceptance_sum;
    weights.insert(weights.end(), chain.log_weights.begin(), chain.log_weights.end());
    s.longest_run = std::max(s.longest_run, chain.scan.longest_run);
    s.non_finite += chain.scan.non_finite;
    s.proposed += chain.steps;
  }
  s.local_moves = to_string(options.local_moves);
  s.local_share = local / std::max(1.0, local + static_cast<double>(s.proposed));
  s.independent_acceptance = accepted / std::max(1.0, static_cast<double>(s.proposed));
  if (!weights.empty()) {
    const Evidence evidence = log_evidence(weights);
    s.log_z = evidence.log_z;
    s.log_z_error = evidence.error;
    s.weight_share = evidence.share;
    s.pareto_k = pareto_k(weights);
    s.acceptance_bound = acceptance_lower_bound(symmetric_kl(weights));
  } else {
    s.log_z = s.log_z_error = s.weight_share = s.pareto_k = s.acceptance_bound = std::nan("");
  }
  if (options.local_moves == LocalMoves::kNone) {
    MeetingOptions meeting;
    meeting.seed = options.seed;
    const Meeting times = meeting_times(target, *stored.proposal, meeting);
    s.mixing_steps = times.steps_for(0.01);
    s.pairs_not_met = times.not_met;
  }
  judge(s);
  return s;
}

json load_summary(const std::string& folder) {
  const std::string path = folder + "/summary.json";
  if (!std::filesystem::exists(folder)) throw ConfigError(fmt::format("{}: there is no such run", folder));
  if (!std::filesystem::exists(path))
    throw ConfigError(fmt::format("{}: has no draws yet; run `hastings sample {}`", folder, folder));
  json summary = read_json(path);
  const json like = RunSummary();  // what every summary has
  bool right = summary.is_object();
  for (const auto& [key, value] : like.items())
    right = right && summary.contains(key) &&
            (summary[key].type() == value.type() || (summary[key].is_number() && value.is_number()) ||
             summary[key].is_null() || value.is_null());
  for (const char* key : {"chains", "draws", "longest_run"}) right = right && summary[key].is_number_integer();
  right = right && summary["acceptance_interval"].size() == 2;
  for (const auto& p : right ? summary["parameters"] : json::array())
    right = right && p.is_object() && p.value("name", json()).is_string() && p.contains("rhat");
  if (!right) throw DataError(fmt::format("{}: is not a hastings summary", path));
  return summary;
}

}  // namespace hastings
