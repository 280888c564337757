#include "hastings/run/summarise.h"

#include <cmath>

#include "hastings/core/objectives.h"
#include "hastings/diagnose/weights.h"

namespace hastings {

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
  acceptance_interval(writer.column(-2), s.acceptance, s.acceptance_interval[0], s.acceptance_interval[1]);
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

}  // namespace hastings
