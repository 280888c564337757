#include "hastings/diagnose/summary.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hastings/diagnose/ess.h"

namespace hastings {

ParameterSummary summarise_parameter(const std::string& name, const Tensor& draws) {
  ParameterSummary s;
  s.name = name;
  s.mean = draws.mean().item<double>();
  s.sd = draws.numel() > 1 ? draws.std(true).item<double>() : std::nan("");
  s.q5 = sample_quantile(draws, 0.05);
  s.q50 = sample_quantile(draws, 0.5);
  s.q95 = sample_quantile(draws, 0.95);
  s.mad = 1.482602218505602 * sample_quantile((draws - s.q50).abs(), 0.5);
  s.mcse = mcse_mean(draws);
  s.ess_bulk = bulk_ess(draws);
  s.ess_tail = tail_ess(draws);
  s.rhat = rhat(draws);
  return s;
}

std::vector<ParameterSummary> summarise_parameters(const std::vector<std::string>& names,
                                                   const std::function<Tensor(int64_t)>& column) {
  std::vector<ParameterSummary> all;
  for (size_t i = 0; i < names.size(); ++i)
    all.push_back(summarise_parameter(names[i], column(static_cast<int64_t>(i))));
  return all;
}

void acceptance_interval(const Tensor& accept_stat, double& mean, double& low, double& high) {
  mean = accept_stat.mean().item<double>();
  const double error = accept_stat.size(1) >= 4 ? mcse_mean(accept_stat) : 0.0;
  const double half = std::isfinite(error) ? 1.96 * error : 0.0;
  low = std::max(0.0, mean - half);
  high = std::min(1.0, mean + half);
}

void judge(RunSummary& s) {
  const double total = static_cast<double>(s.chains * s.draws);
  s.min_ess_bulk = s.min_ess_tail = total * 10;
  s.max_rhat = 0;
  bool undefined = false;
  for (const auto& p : s.parameters) {
    undefined |= !std::isfinite(p.ess_bulk) || !std::isfinite(p.ess_tail) || !std::isfinite(p.rhat);
    if (std::isfinite(p.ess_bulk)) s.min_ess_bulk = std::min(s.min_ess_bulk, p.ess_bulk);
    if (std::isfinite(p.ess_tail)) s.min_ess_tail = std::min(s.min_ess_tail, p.ess_tail);
    if (std::isfinite(p.rhat)) s.max_rhat = std::max(s.max_rhat, p.rhat);
  }
  s.ess_per_second = s.sample_seconds > 0 ? s.min_ess_bulk / s.sample_seconds : 0;
  const double whole = s.sample_seconds + s.learn_seconds;
  s.ess_per_second_with_learning = whole > 0 ? s.min_ess_bulk / whole : 0;

  auto& v = s.verdict;
  v.clear();
  const bool local = s.local_moves != "none" && s.local_share > 0;
  const char* remedy = local ? "--defensive 0.05" : "--defensive 0.05, or --local-moves";
  if (undefined) v.emplace_back("R-hat or ESS could not be computed for some parameter: too few draws, or a constant.");
  if (s.chains < 2) v.emplace_back("Only one chain: R-hat compares its two halves only; use 4 or more.");
  if (s.max_rhat > 1.01)
    v.push_back(fmt::format("R-hat is up to {:.3f} (above 1.01): the chains disagree; draw more.", s.max_rhat));
  const double wanted = 100.0 * static_cast<double>(s.chains);
  if (s.min_ess_bulk < wanted || s.min_ess_tail < wanted) {
    v.push_back(
        fmt::format("The least ESS is {:.0f} (bulk) and {:.0f} (tail), below 100 a chain: draw more, or learn longer.",
                    s.min_ess_bulk, s.min_ess_tail));
  }
  if (s.acceptance < 0.1)
    v.push_back(fmt::format(
        "Only {:.1f} % of the candidates are accepted: the proposal does not fit; learn longer, or add --local-moves.",
        100 * s.acceptance));
  if (s.learned_acceptance > 0 && s.acceptance > s.learned_acceptance + 0.1) {
    v.push_back(
        fmt::format("The chains accept {:.2f}, but learning saw {:.2f}: there are points they never reach, perhaps "
                    "whole modes; learn longer, or try --init anneal.",
                    s.acceptance, s.learned_acceptance));
  }
  if (s.pareto_k > 0.7 && !local) {
    v.push_back(fmt::format(
        "Pareto k of the weights is {:.2f} (above 0.7): the proposal's tail is too light somewhere; try {}.",
        s.pareto_k, remedy));
  }
  if (static_cast<double>(s.longest_run) > std::max(50.0, 0.05 * static_cast<double>(s.draws))) {
    v.push_back(
        fmt::format("A chain stayed at one state for {} steps: it sticks where the proposal is too thin; try {}.",
                    s.longest_run, remedy));
  }
  if (s.pairs_not_met > 0)
    v.push_back(
        fmt::format("{} of the coupled pairs of chains did not meet: convergence is not certified.", s.pairs_not_met));
  if (s.non_finite > 0 && static_cast<double>(s.non_finite) > 0.01 * static_cast<double>(s.proposed)) {
    v.push_back(fmt::format("{:.1f} % of the candidates had no finite log density.",
                            100.0 * static_cast<double>(s.non_finite) / static_cast<double>(s.proposed)));
  }
  s.good = v.empty();
  if (s.good) {
    std::string line = fmt::format("Good: R-hat {:.3f}, at least {:.0f} effective draws of {:.0f}", s.max_rhat,
                                   std::min(s.min_ess_bulk, s.min_ess_tail), total);
    if (s.mixing_steps)
      line += fmt::format(", within 0.01 of stationarity after {} step{}", *s.mixing_steps,
                          *s.mixing_steps == 1 ? "" : "s");
    v.push_back(line + ".");
  }
  if (local) {
    v.push_back(fmt::format("{:.0f} % of the steps are local moves ({}); independent moves alone accept {:.1f} %.",
                            100 * s.local_share, s.local_moves, 100 * s.independent_acceptance));
    if (s.pareto_k > 0.7)
      v.push_back(
          fmt::format("The draws rest on the local moves, the log evidence on the weights alone: at a Pareto k of "
                      "{:.2f} (above 0.7) it is not to be relied on.",
                      s.pareto_k));
  }
}

}  // namespace hastings
