// Table 1: effective sample sizes of the paper's three objectives and of the rivals it names, on its eleven targets.
#include "table1.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <map>
#include <memory>

#include "hastings/core/error.h"
#include "hastings/sample/sampler.h"
#include "hastings/target/registry.h"

namespace hastings::reproduce {

namespace table1_parts {

FitOptions flow_settings(const Row& row, const std::string& objective, bool modes, uint64_t seed, bool quick) {
  FitOptions options = paper_settings(objective, modes, seed, quick);
  if (row.posterior()) {
    options.learn.target_acceptance = 0.975;
    options.start.method = "auto";  // a Laplace start, for every objective
    if (!quick) options.learn.max_iterations = objective == "vi" ? 10000 : 6000;
  }
  return options;
}

L2hmcOptions l2hmc_settings(int64_t dim, bool modes, uint64_t seed, bool quick) {
  L2hmcOptions options;
  options.seed = seed;
  if (modes) options.temperature = 10;
  if (dim > 10) options.hidden = 100;
  if (quick) options.iterations = 300;
  return options;
}

AniceOptions anice_settings(const Row& row, uint64_t seed, bool quick) {
  AniceOptions options;
  options.seed = seed;
  if (row.posterior()) {
    options.velocity = 50;
    options.hidden = {{400}, {400, 400}, {400}};
    options.from_noise = 16;
    options.standardise = true;
    // Its mean is over 50 dimensions of v; what is accepted depends on their sum.
    options.velocity_weight = 20;
    options.iterations = 2000;
  }
  if (quick) options.iterations = 300;
  return options;
}

}  // namespace table1_parts

namespace {

using namespace table1_parts;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

double worst_mode_error(const Target& target, const Tensor& draws) {
  const auto regions = target.regions();
  if (!regions) return -1;
  const Tensor region = target.region_of(draws.reshape({-1, target.dim()}));
  const Tensor share =
      at::bincount(region, {}, regions->weights.size(0)).to(at::kDouble) / static_cast<double>(region.size(0));
  return (share - regions->weights).abs().max().item<double>();
}

// The paper's ESS believes a chain that never leaves the middle of its target: autocovariances are divided by the true
// variance. So the spread is looked at too: the largest |log(sd / true sd)| of a statistic.
double spread_error(const Target& target, const Truth& truth, const Tensor& draws) {
  const Tensor statistics = target.statistics(draws.reshape({-1, target.dim()}));
  return (statistics.std(0) / truth.sd).log().abs().max().item<double>();
}
json result(const Target& target, const Truth& truth, const Tensor& draws, double acceptance, double learn,
            double sampling) {
  const double ess = least_ess(target, truth, draws);
  return {{"ess", ess},
          {"ess_pooled", pooled_ess(target, truth, draws)},
          {"ess_bulk", least_bulk_ess(target, draws)},
          {"ess_per_second", ess * static_cast<double>(draws.size(0)) / sampling},
          {"acceptance", acceptance},
          {"learn_seconds", learn},
          {"sample_seconds", sampling},
          {"mode_error", worst_mode_error(target, draws)},
          {"spread_error", spread_error(target, truth, draws)}};
}

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

json run_flow(const Row& row, const Target& target, const std::string& objective, uint64_t seed, bool quick,
              const Share& share) {
  FitOptions options = flow_settings(row, objective, target.regions().has_value(), seed, quick);
  options.learn.threads = share.threads;
  const Fit learned = fit(target, options, share.observer);
  SampleOptions sampling;
  sampling.chains = kChains;
  sampling.draws = row.draws;
  sampling.seed = seed;
  sampling.threads = share.threads;
  MemorySink sink(kChains, row.draws, target.dim());
  const SampleReport report = sample(target, *learned.proposal, sampling, sink, share.observer);
  double accepted = 0, steps = 0;
  for (const auto& chain : report.chains) {
    accepted += chain.scan.acceptance_sum;
    steps += static_cast<double>(chain.steps);
  }
  return result(target, truth_of(row.name, target), sink.draws, accepted / steps, learned.seconds, report.seconds);
}

// Draws a second of the paper's network, whatever it has learned: the three objectives differ in its weights alone. On
// one core, the fastest of five times.
double flow_speed(const Row& row, const Target& target, uint64_t seed, Observer& observer) {
  const Truth truth = truth_of(row.name, target);
  const int64_t d = target.dim();
  const Whitening whitening = truth.mean.size(0) == d
                                  ? Whitening{truth.mean, at::diag(truth.sd)}
                                  : Whitening{at::zeros({d}, at::kDouble), target.scale() * at::eye(d, at::kDouble)};
  const auto proposal = make_flow_proposal(flow_settings(row, "ar", false, seed, false).flow.resolved(d), whitening,
                                           GaussianMixture::standard(d), seed);
  SampleOptions sampling;
  sampling.chains = kChains;
  sampling.draws = row.draws;
  sampling.seed = seed;
  sampling.threads = 1;
  MemorySink sink(kChains, row.draws, d);
  double best = 1e300;
  for (int k = 0; k < 5; ++k) best = std::min(best, sample(target, *proposal, sampling, sink, observer).seconds);
  return static_cast<double>(kChains * row.draws) / best;
}

json run_kernel(const Row& row, const Target& target, const std::string& method, uint64_t seed, bool quick,
                const Share& share) {
  const auto begin = Clock::now();
  std::unique_ptr<Kernel> kernel;
  if (method == "hmc") {
    HmcOptions options;
    options.seed = seed;
    kernel = tune_hmc(target, options, share.observer).kernel;
  } else if (method == "l2hmc") {
    kernel =
        learn_l2hmc(target, l2hmc_settings(target.dim(), target.regions().has_value(), seed, quick), share.observer);
  } else {
    kernel = learn_anice(target, anice_settings(row, seed, quick), share.observer);
  }
  const double learn = since(begin);
  const at::NoGradGuard no_grad;
  const Streams streams{seed, Phase::kComparison};
  Stream start = streams(Purpose::kExact), noise = streams(Purpose::kLocal), uniforms = streams(Purpose::kLocalAccept);
  Tensor x;
  if (target.has_exact_sampler()) {
    x = target.exact_draws(kChains, start);
  } else {
    StartOptions options;
    options.seed = seed;
    x = find_start(target, options, share.observer).population.x.narrow(0, 0, kChains).clone();
  }
  State state = kernel->init(x);
  for (int t = 0; t < 200; ++t) kernel->step(state, {noise, uniforms});
  Tensor draws = at::empty({kChains, row.draws, target.dim()}, at::kDouble);
  double accepted = 0;
  const auto sampling = Clock::now();
  for (int64_t t = 0; t < row.draws; ++t) {
    if (share.observer.should_stop()) throw Interrupted("stopped while sampling");
    const Info info = kernel->step(state, {noise, uniforms});
    accepted += info.accept_prob.mean().item<double>();
    draws.select(1, t).copy_(state.x);
  }
  return result(target, truth_of(row.name, target), draws, accepted / static_cast<double>(row.draws), learn,
                since(sampling));
}

// Computes what `--only` asks for and is not there yet; a seed of everything comes before the next.
void compute(Context& context, const std::vector<Row>& rows) {
  const Options& o = context.options();
  std::map<std::string, std::shared_ptr<const Target>> targets;
  for (const auto& row : rows) {
    if (!contains(context.chosen(0), row.name)) continue;
    if (row.posterior() && o.data.empty()) {
      context.tell(
          fmt::format("{}: skipped: its data are not here; --data or HASTINGS_TEST_DATA names their folder", row.name));
      continue;
    }
    try {
      targets[row.name] = find_target(row.target);
    } catch (const DataError& error) {
      context.tell(fmt::format("{}: skipped: {}", row.name, error.what()));
    }
  }
  std::vector<Job> jobs;
  for (uint64_t seed = o.first_seed; seed < o.first_seed + static_cast<uint64_t>(o.seeds); ++seed) {
    for (const auto& row : rows) {
      if (!targets.contains(row.name)) continue;
      for (const auto& method : context.chosen(1)) {
        // The rivals on the targets of their own papers, as in the paper's table.
        if ((method == "a-nice-mc" || method == "l2hmc") && !row.published.contains(method)) continue;
        const std::string key = key_of(row, method, seed);
        if (context.find(key)) continue;
        jobs.push_back({fmt::format("{} by {}, seed {}", row.name, method, seed),
                        [&context, row, method, seed, key, target = targets.at(row.name)](const Share& share) {
                          context.keep(key, (is_flow(method) ? run_flow : run_kernel)(row, *target, method, seed,
                                                                                      context.options().quick, share));
                        }});
      }
    }
  }
  context.run(jobs);
  // Speeds one after the other, so that they can be compared.
  for (const auto& row : rows) {
    if (!targets.contains(row.name) || context.find(speed_key(row))) continue;
    if (std::none_of(context.chosen(1).begin(), context.chosen(1).end(), is_flow)) continue;
    context.tell(fmt::format("{}: draws a second ...", row.name));
    context.keep(speed_key(row),
                 {{"draws_per_second", flow_speed(row, *targets.at(row.name), o.first_seed, context.observer())}});
  }
}

void run_table1(Context& context) {
  const std::vector<Row> rows = paper_rows(context.options().data);
  compute(context, rows);
  write_page(context, rows);
}

}  // namespace

Experiment table1() {
  Experiment out{"table1",
                 "Table 1: ESS and ESS/s of HMC, A-NICE-MC, L2HMC, AR, ARLB and VI on eleven targets",
                 "40 minutes a seed on two cores; quick: 6 minutes",
                 {{}, {}},
                 run_table1};
  for (const auto& row : paper_rows("")) out.axes[0].push_back(row.name);
  for (const auto& [method, title] : kMethods) out.axes[1].push_back(method);
  return out;
}

}  // namespace hastings::reproduce
