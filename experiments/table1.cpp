// Table 1: effective sample sizes of the paper's three objectives and of the rivals it names, on its eleven targets.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "hastings/baseline/learned_kernels.h"
#include "hastings/core/error.h"
#include "hastings/diagnose/mean_error.h"
#include "hastings/sample/sampler.h"
#include "hastings/target/registry.h"
#include "measure.h"
#include "reproduce.h"

namespace hastings::reproduce {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr int kChains = 64;

// Published ESS; a negative number: not published.
struct Row {
  std::string name, target;
  int64_t draws;
  double anice, l2hmc, ar, arlb, vi;
  bool posterior() const { return target.rfind("logistic:", 0) == 0; }
};

std::vector<Row> rows(const std::string& data) {
  const std::string uci = "logistic:" + data + "/uci/";
  return {{"ring", "ring", 1000, 1000, -1, 863, 811, 717},
          {"mog2", "mog2", 1000, 355, -1, 732, 746, 297},
          {"mog6", "mog6", 1000, 320, -1, 510, 401, 12},
          {"ring5", "ring5", 1000, 156, -1, 336, 249, 170},
          {"german", uci + "german.data-numeric", 5000, 926, -1, 5000, 4105, 3535},
          {"heart", uci + "heart.dat", 5000, 1251, -1, 5000, 4362, 4110},
          {"australian", uci + "australian.dat", 5000, 1015, -1, 5000, 4234, 4058},
          {"icg", "icg", 1000, -1, 783, 1000, 891, 900},
          {"rough_well", "rough_well", 1000, -1, 625, 1000, 1000, 1000},
          {"scg", "scg", 1000, -1, 497, 1000, 1000, 1000},
          {"mog", "mog", 1000, -1, 32, 885, 868, 727}};
}

double published(const Row& row, const std::string& method) {
  if (method == "a-nice-mc") return row.anice;
  if (method == "l2hmc") return row.l2hmc;
  if (method == "ar") return row.ar;
  if (method == "arlb") return row.arlb;
  return method == "vi" ? row.vi : -1;
}

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
constexpr double kSpread = 0.15, kModes = 0.1;  // beyond these a cell is marked

json result(const Target& target, const Truth& truth, const Tensor& draws, double acceptance, double learn,
            double sampling) {
  const double ess = least_ess(target, truth, draws);
  return {{"ess", ess},
          {"ess_per_second", ess * static_cast<double>(draws.size(0)) / sampling},
          {"acceptance", acceptance},
          {"learn_seconds", learn},
          {"sample_seconds", sampling},
          {"mode_error", worst_mode_error(target, draws)},
          {"spread_error", spread_error(target, truth, draws)}};
}

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

json run_flow(const Row& row, const Target& target, const std::string& objective, uint64_t seed, Context& context) {
  FitOptions options = paper_settings(objective, seed, context.options());
  if (row.posterior()) {
    options.learn.target_acceptance = 0.975;
    options.start.method = "auto";  // a Laplace start, for every objective
    if (context.options().quick) options.learn.max_iterations = 600;
  }
  const Fit learned = fit(target, options, context.observer());
  SampleOptions sampling;
  sampling.chains = kChains;
  sampling.draws = row.draws;
  sampling.seed = seed + 1000;
  sampling.threads = context.options().threads;
  MemorySink sink(kChains, row.draws, target.dim());
  const SampleReport report = sample(target, *learned.proposal, sampling, sink, context.observer());
  double accepted = 0, steps = 0;
  for (const auto& chain : report.chains) {
    accepted += chain.scan.acceptance_sum;
    steps += static_cast<double>(chain.steps);
  }
  return result(target, truth_of(row.name, target), sink.draws, accepted / steps, learned.seconds, report.seconds);
}

json run_kernel(const Row& row, const Target& target, const std::string& method, uint64_t seed, Context& context) {
  const bool quick = context.options().quick;
  const auto begin = Clock::now();
  std::unique_ptr<LocalKernel> kernel;
  if (method == "hmc") {
    HmcOptions options;
    options.seed = seed;
    kernel = tune_hmc(target, options, context.observer()).kernel;
  } else if (method == "l2hmc") {
    L2hmcOptions options;
    options.seed = seed;
    if (target.dim() > 10) options.hidden = 100;
    if (quick) options.iterations = 300;
    kernel = learn_l2hmc(target, options, context.observer());
  } else {
    AniceOptions options;
    options.seed = seed;
    if (row.posterior()) {
      options.velocity = 50;
      options.hidden = {{400}, {400, 400}, {400}};
      options.critic = {800, 800, 800};
      options.from_noise = 16;
    }
    if (quick) options.iterations = 300;
    kernel = learn_anice(target, options, context.observer());
  }
  const double learn = since(begin);
  const at::NoGradGuard no_grad;
  Stream start(seed, 7, Purpose::kExact), noise(seed, 8, Purpose::kLocal), uniforms(seed, 9, Purpose::kLocal);
  Tensor x;
  if (target.has_exact_sampler()) {
    x = target.exact_draws(kChains, start);
  } else {
    StartOptions options;
    options.seed = seed;
    x = find_start(target, options, context.observer()).population.x.narrow(0, 0, kChains).clone();
  }
  const Density density = density_of(target);
  LocalState state = kernel->init(x, density);
  for (int t = 0; t < 200; ++t) kernel->step(state, density, noise, uniforms);
  Tensor draws = at::empty({kChains, row.draws, target.dim()}, at::kDouble);
  double accepted = 0;
  const auto sampling = Clock::now();
  for (int64_t t = 0; t < row.draws; ++t) {
    if (context.observer().should_stop()) throw Interrupted("stopped while sampling");
    const LocalInfo info = kernel->step(state, density, noise, uniforms);
    accepted += info.accept_prob.mean().item<double>();
    draws.select(1, t).copy_(state.x);
  }
  return result(target, truth_of(row.name, target), draws, accepted / static_cast<double>(row.draws), learn,
                since(sampling));
}

}  // namespace

void table1(Context& context) {
  const std::vector<std::string> methods = {"hmc", "a-nice-mc", "l2hmc", "ar", "arlb", "vi"};
  std::string csv =
      "target,method,seed,ess,published,ess_per_second,acceptance,learn_seconds,sample_seconds,mode_error,spread_"
      "error\n";
  std::string ess_table = "| ESS of | HMC | A-NICE-MC | L2HMC | AR | ARLB | VI |\n|---|---|---|---|---|---|---|\n";
  std::string speed_table = "| ESS/s | HMC | A-NICE-MC | L2HMC | AR | ARLB | VI |\n|---|---|---|---|---|---|---|\n";
  for (const auto& row : rows(context.options().data)) {
    std::unique_ptr<Target> target;
    try {
      target = find_target(row.target);
    } catch (const DataError& error) {
      context.tell(fmt::format("{}: skipped: {}", row.name, error.what()));
      continue;
    }
    ess_table += fmt::format("| {} ({}) |", row.name, row.draws);
    speed_table += fmt::format("| {} |", row.name);
    for (const auto& method : methods) {
      // The rivals on the targets of their own papers, as in the paper's table.
      if ((method == "a-nice-mc" && row.anice < 0) || (method == "l2hmc" && row.l2hmc < 0)) {
        ess_table += " |";
        speed_table += " |";
        continue;
      }
      std::vector<double> ess, speed;
      bool wrong = false;
      for (int s = 0; s < context.options().seeds; ++s) {
        const uint64_t seed = context.options().first_seed + static_cast<uint64_t>(s);
        const bool wanted = context.options().only.empty() || context.wanted(row.name) || context.wanted(method);
        const std::string key = fmt::format("{}-{}-{}", row.name, method, seed);
        if (!wanted && !context.has(key)) continue;
        const json cell = context.cell(key, [&] {
          context.tell(fmt::format("{} by {}, seed {} ...", row.name, method, seed));
          return method == "ar" || method == "arlb" || method == "vi" ? run_flow(row, *target, method, seed, context)
                                                                      : run_kernel(row, *target, method, seed, context);
        });
        ess.push_back(cell["ess"]);
        speed.push_back(cell["ess_per_second"]);
        const double known = published(row, method);
        csv += fmt::format("{},{},{},{:.1f},{},{:.0f},{:.4f},{:.2f},{:.3f},{:.4f},{:.4f}\n", row.name, method, seed,
                           ess.back(), known < 0 ? "" : fmt::format("{:.0f}", known), speed.back(),
                           cell["acceptance"].get<double>(), cell["learn_seconds"].get<double>(),
                           cell["sample_seconds"].get<double>(), cell["mode_error"].get<double>(),
                           cell.value("spread_error", 0.0));
        wrong |= cell["mode_error"].get<double>() > kModes || !(cell.value("spread_error", 0.0) < kSpread);
      }
      if (ess.empty()) {
        ess_table += " |";
        speed_table += " |";
        continue;
      }
      const MeanError e = mean_error(ess), v = mean_error(speed);
      const double known = published(row, method);
      ess_table += fmt::format(" {:.0f}{}{}{} |", e.mean, wrong ? "†" : "",
                               ess.size() > 1 ? fmt::format(" ± {:.0f}", e.error) : "",
                               known < 0 ? "" : fmt::format(" ({:.0f})", known));
      speed_table += fmt::format(" {:.3g} |", v.mean);
    }
    ess_table += "\n";
    speed_table += "\n";
  }
  context.write("table1.csv", csv);
  context.write(
      "table1.md",
      fmt::format(
          "Seeds {} to {}{}. ESS as in the paper's appendix C.1, mean ± standard error over the seeds, published "
          "figures in brackets; of as many draws as stand "
          "behind the target. †: in some seed the draws do not have the target's spread (standard deviation off by "
          "more than 15 %) or its mode weights "
          "(off by more than 0.1), whatever the ESS says.\n\n{}\nESS a second, of all {} chains, sampling alone:\n\n{}",
          context.options().first_seed,
          context.options().first_seed + static_cast<uint64_t>(context.options().seeds) - 1,
          context.options().quick ? ", quick settings" : "", ess_table, kChains, speed_table));
}

}  // namespace hastings::reproduce
