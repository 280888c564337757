// Table 1: effective sample sizes of the paper's three objectives and of the rivals it names, on its eleven targets.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>

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

FitOptions flow_settings(const Row& row, const std::string& objective, uint64_t seed, bool quick) {
  FitOptions options = paper_settings(objective, seed, quick);
  if (row.posterior()) {
    options.learn.target_acceptance = 0.975;
    options.start.method = "auto";  // a Laplace start, for every objective
    if (quick) options.learn.max_iterations = 600;
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
    options.critic = {800, 800, 800};
    options.from_noise = 16;
  }
  if (quick) options.iterations = 300;
  return options;
}

json run_flow(const Row& row, const Target& target, const std::string& objective, uint64_t seed, bool quick,
              const Share& share) {
  FitOptions options = flow_settings(row, objective, seed, quick);
  options.learn.threads = share.threads;
  const Fit learned = fit(target, options, share.observer);
  SampleOptions sampling;
  sampling.chains = kChains;
  sampling.draws = row.draws;
  sampling.seed = seed + 1000;
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

json run_kernel(const Row& row, const Target& target, const std::string& method, uint64_t seed, bool quick,
                const Share& share) {
  const auto begin = Clock::now();
  std::unique_ptr<LocalKernel> kernel;
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
  Stream start(seed, 7, Purpose::kExact), noise(seed, 8, Purpose::kLocal), uniforms(seed, 9, Purpose::kLocal);
  Tensor x;
  if (target.has_exact_sampler()) {
    x = target.exact_draws(kChains, start);
  } else {
    StartOptions options;
    options.seed = seed;
    x = find_start(target, options, share.observer).population.x.narrow(0, 0, kChains).clone();
  }
  const Density density = density_of(target);
  LocalState state = kernel->init(x, density);
  for (int t = 0; t < 200; ++t) kernel->step(state, density, noise, uniforms);
  Tensor draws = at::empty({kChains, row.draws, target.dim()}, at::kDouble);
  double accepted = 0;
  const auto sampling = Clock::now();
  for (int64_t t = 0; t < row.draws; ++t) {
    if (share.observer.should_stop()) throw Interrupted("stopped while sampling");
    const LocalInfo info = kernel->step(state, density, noise, uniforms);
    accepted += info.accept_prob.mean().item<double>();
    draws.select(1, t).copy_(state.x);
  }
  return result(target, truth_of(row.name, target), draws, accepted / static_cast<double>(row.draws), learn,
                since(sampling));
}

// What was computed for one method on one target.
struct Entry {
  std::vector<double> ess, speed;
  bool wrong = false;  // somewhere without the target's spread or mode weights
};

std::string ess_text(const Entry& entry, std::optional<double> known, int seeds) {
  if (entry.ess.empty()) return "";
  const MeanError e = mean_error(entry.ess);
  const auto n = static_cast<int>(entry.ess.size());
  std::string text = fmt::format("{:.0f}{}", e.mean, entry.wrong ? "†" : "");
  if (n > 1) text += fmt::format(" ± {:.0f}", e.error);
  if (known) text += fmt::format(" ({:.0f})", *known);
  if (n < seeds) text += fmt::format(" [{} seed{}]", n, n > 1 ? "s" : "");
  return text;
}

std::string settings_text(bool quick) {
  const HmcOptions hmc;
  const L2hmcOptions l2hmc = l2hmc_settings(2, true, 0, quick), l2hmc_high = l2hmc_settings(50, false, 0, quick);
  const Row plain{"", "", 0, {}}, posterior{"", "logistic:", 0, {}};
  const AniceOptions anice = anice_settings(plain, 0, quick), anice_high = anice_settings(posterior, 0, quick);
  const FitOptions flow = flow_settings(plain, "ar", 0, quick), flow_high = flow_settings(posterior, "ar", 0, quick);
  return fmt::format(
      "Settings, the same for every seed. HMC: {} leapfrog steps, identity mass, step size by dual averaging to an "
      "acceptance of {}. L2HMC: {} leapfrog steps, {} hidden units ({} from 11 dimensions on), {} steps of {} chains, "
      "Adam {}, where there are modes from temperature {}. A-NICE-MC: {} dimensions of v (posteriors {}), {} steps of "
      "{} pairs, {} critic steps each, Adam {}. "
      "AR, "
      "ARLB, VI: the paper's RealNVP, at most {} steps (posteriors {}, or an acceptance of {}).\n",
      hmc.leapfrog_steps, hmc.target_acceptance, l2hmc.leapfrog_steps, l2hmc.hidden, l2hmc_high.hidden,
      l2hmc.iterations, l2hmc.chains, l2hmc.learning_rate, l2hmc.temperature, anice.velocity, anice_high.velocity,
      anice.iterations, anice.batch, anice.critic_steps, anice.learning_rate, flow.learn.max_iterations,
      flow_high.learn.max_iterations, flow_high.learn.target_acceptance);
}

}  // namespace

void table1(Context& context) {
  const std::vector<std::pair<std::string, std::string>> methods = {
      {"hmc", "HMC"}, {"a-nice-mc", "A-NICE-MC"}, {"l2hmc", "L2HMC"}, {"ar", "AR"}, {"arlb", "ARLB"}, {"vi", "VI"}};
  const bool quick = context.options().quick;
  const int seeds = context.options().seeds;
  const uint64_t first = context.options().first_seed;
  std::vector<Row> all;
  std::map<std::string, std::unique_ptr<Target>> targets;
  std::vector<std::vector<std::string>> axes(2);
  for (const auto& [method, title] : methods) axes[1].push_back(method);
  for (const auto& row : paper_rows(context.options().data)) {
    axes[0].push_back(row.name);
    try {
      targets[row.name] = find_target(row.target);
      all.push_back(row);
    } catch (const DataError& error) {
      context.tell(fmt::format("{}: skipped: {}", row.name, error.what()));
    }
  }
  auto key = [](const Row& row, const std::string& method, uint64_t seed) {
    return fmt::format("{}-{}-{}", row.name, method, seed);
  };
  const auto chosen = context.chosen(axes);
  std::vector<Job> jobs;
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(seeds); ++seed) {
    for (const auto& row : all) {
      for (const auto& method : chosen[1]) {
        // The rivals on the targets of their own papers, as in the paper's table.
        if ((method == "a-nice-mc" || method == "l2hmc") && !row.published.contains(method)) continue;
        if (std::find(chosen[0].begin(), chosen[0].end(), row.name) == chosen[0].end()) continue;
        if (context.has(key(row, method, seed))) continue;
        jobs.push_back(
            {fmt::format("{} by {}, seed {}", row.name, method, seed), [&, row, method, seed](const Share& share) {
               context.cell(key(row, method, seed), [&] {
                 const bool flow = method == "ar" || method == "arlb" || method == "vi";
                 return (flow ? run_flow : run_kernel)(row, *targets.at(row.name), method, seed, quick, share);
               });
             }});
      }
    }
  }
  context.run(jobs);

  // The table has whatever is there by now.
  std::string csv =
      "target,method,seed,ess,published,ess_per_second,acceptance,learn_seconds,sample_seconds,mode_error,spread_"
      "error\n";
  std::string head, ess_table, speed_table;
  for (const auto& [method, title] : methods) head += fmt::format(" {} |", title);
  head += "\n|" + std::string(4, '-') + "|";
  for (size_t k = 0; k < methods.size(); ++k) head += "---|";
  std::map<std::string, std::vector<std::vector<double>>> ours, theirs;  // method: columns of a plot
  for (size_t r = 0; r < all.size(); ++r) {
    const Row& row = all[r];
    ess_table += fmt::format("| {} ({}) |", row.name, row.draws);
    speed_table += fmt::format("| {} |", row.name);
    for (const auto& [method, title] : methods) {
      const auto found = row.published.find(method);
      const auto known = found == row.published.end() ? std::nullopt : std::optional(found->second);
      const double draws = static_cast<double>(row.draws), at_x = static_cast<double>(r);
      Entry entry;
      for (uint64_t seed = first; seed < first + static_cast<uint64_t>(seeds); ++seed) {
        if (!context.has(key(row, method, seed))) continue;
        const json cell = context.cell(key(row, method, seed), [] { return json(); });
        const double modes = cell["mode_error"], spread = cell.value("spread_error", 0.0);
        entry.ess.push_back(cell["ess"]);
        entry.speed.push_back(cell["ess_per_second"]);
        entry.wrong |= modes > kModes || !(spread < kSpread);
        csv += fmt::format("{},{},{},{:.1f},{},{:.0f},{:.4f},{:.2f},{:.3f},{:.4f},{:.4f}\n", row.name, method, seed,
                           entry.ess.back(), known ? fmt::format("{:.0f}", *known) : "", entry.speed.back(),
                           cell["acceptance"].get<double>(), cell["learn_seconds"].get<double>(),
                           cell["sample_seconds"].get<double>(), modes, spread);
      }
      ess_table += fmt::format(" {} |", ess_text(entry, known, seeds));
      speed_table += entry.speed.empty() ? " |" : fmt::format(" {:.3g} |", mean_error(entry.speed).mean);
      auto& mine = ours.try_emplace(method, 3).first->second;
      auto& published_ones = theirs.try_emplace(method, 2).first->second;
      if (!entry.ess.empty()) {
        const MeanError e = mean_error(entry.ess);
        mine[0].push_back(at_x - 0.1);
        mine[1].push_back(e.mean / draws);
        mine[2].push_back(std::isfinite(e.error) ? e.error / draws : 0);
      }
      if (known) {
        published_ones[0].push_back(at_x + 0.1);
        published_ones[1].push_back(*known / draws);
      }
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
          "(off by more than 0.1), whatever the ESS says.\n\n| ESS of |{}\n{}\nESS a second, of all {} chains, "
          "sampling alone:\n\n| ESS/s |{}\n{}\n{}",
          first, first + static_cast<uint64_t>(seeds) - 1, quick ? ", quick settings" : "", head, ess_table, kChains,
          head, speed_table, settings_text(quick)));
  Figure figure{{}, 3, 420, 320};
  for (const auto& [method, title] : methods) {
    Panel panel{title, "", "ESS / draws"};
    panel.layers = {{Draw::kMarks, "here, with standard error", ours[method], 0},
                    {Draw::kMarks, "published", theirs[method], 1}};
    for (const auto& row : all) panel.x_names.push_back(row.name);
    panel.y_range = {{0, 1.5}};
    figure.panels.push_back(panel);
  }
  context.figure("table1", figure);
}

}  // namespace hastings::reproduce
