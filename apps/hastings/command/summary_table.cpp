#include "summary_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace hastings::app {
namespace {

std::string cell(double value, const char* format) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : "-";
}
const char* plural(int64_t n) { return n == 1 ? "" : "s"; }

}  // namespace

void print_summary(const RunSummary& s) {
  size_t width = 9;
  for (const auto& p : s.parameters) width = std::max(width, p.name.size());
  fmt::print("{:{}}  {:>10} {:>9} {:>9} {:>9} {:>10} {:>10} {:>10} {:>9} {:>9} {:>7}\n", "parameter", width, "Mean",
             "MCSE", "StdDev", "MAD", "5%", "50%", "95%", "ESS_bulk", "ESS_tail", "R_hat");
  for (const auto& p : s.parameters) {
    fmt::print("{:{}}  {:>10} {:>9} {:>9} {:>9} {:>10} {:>10} {:>10} {:>9} {:>9} {:>7}\n", p.name, width,
               cell(p.mean, "{:.4g}"), cell(p.mcse, "{:.2g}"), cell(p.sd, "{:.4g}"), cell(p.mad, "{:.4g}"),
               cell(p.q5, "{:.4g}"), cell(p.q50, "{:.4g}"), cell(p.q95, "{:.4g}"), cell(p.ess_bulk, "{:.0f}"),
               cell(p.ess_tail, "{:.0f}"), cell(p.rhat, "{:.4f}"));
  }
  fmt::print("\n{} chains of {} draws. Acceptance {} (95 % interval {} to {}; lower bound from the symmetric KL {}).\n",
             s.chains, s.draws, cell(s.acceptance, "{:.4f}"), cell(s.acceptance_interval[0], "{:.4f}"),
             cell(s.acceptance_interval[1], "{:.4f}"), cell(s.acceptance_bound, "{:.3f}"));
  fmt::print("log evidence {} ± {}, Pareto k {}, longest stay {} step{}", cell(s.log_z, "{:.4f}"),
             cell(s.log_z_error, "{:.2g}"), cell(s.pareto_k, "{:.2f}"), s.longest_run, plural(s.longest_run));
  if (s.mixing_steps)
    fmt::print(", within 0.01 of stationarity after {} step{} (coupled chains)", *s.mixing_steps,
               plural(*s.mixing_steps));
  fmt::print(".\nLearning {} s, sampling {} s; {} effective draws a second while sampling, {} with learning.\n",
             cell(s.learn_seconds, "{:.2f}"), cell(s.sample_seconds, "{:.3g}"), cell(s.ess_per_second, "{:.0f}"),
             cell(s.ess_per_second_with_learning, "{:.0f}"));
  for (const auto& line : s.verdict) fmt::print("{}\n", line);
}

}  // namespace hastings::app
