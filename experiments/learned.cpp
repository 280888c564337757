// What the paper's network learns by VI, AR and ARLB: correlation of the objectives, densities, and the mixture with a
// random walk.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "hastings/baseline/learned_kernels.h"
#include "hastings/chain/mixture.h"
#include "hastings/core/error.h"
#include "hastings/core/moments.h"
#include "hastings/io/stored_fit.h"
#include "hastings/sample/sampler.h"
#include "hastings/target/registry.h"
#include "measure.h"
#include "reproduce.h"

namespace hastings::reproduce {
namespace {

using nlohmann::json;

const std::vector<std::string> kTargets = {"ring", "mog2", "mog6", "ring5"};
const std::vector<std::pair<std::string, std::string>> kObjectives = {{"vi", "VI"}, {"ar", "AR"}, {"arlb", "ARLB"}};

double pearson(const std::vector<double>& x, const std::vector<double>& y) {
  const Tensor a = at::tensor(x, at::kDouble), b = at::tensor(y, at::kDouble);
  const Tensor u = a - a.mean(), v = b - b.mean();
  return ((u * v).sum() / (u.square().sum() * v.square().sum()).sqrt()).item<double>();
}

std::vector<double> ranks(const std::vector<double>& x) {
  const Tensor rank = at::tensor(x, at::kDouble).argsort().argsort().to(at::kDouble);
  return {rank.data_ptr<double>(), rank.data_ptr<double>() + rank.numel()};
}

// Proposals are learned once, by each objective, and kept as runs for all experiments.
std::string run_of(const Context& context, const std::string& target, const std::string& objective) {
  const Options& o = context.options();
  return fmt::format("{}/runs{}/{}-{}-{}", o.output, o.quick ? "-quick" : "", target, objective, o.first_seed);
}

void learn_proposals(Context& context, const std::vector<std::string>& targets) {
  std::vector<Job> jobs;
  for (const auto& name : targets) {
    for (const auto& [objective, title] : kObjectives) {
      const std::string folder = run_of(context, name, objective);
      if (is_run(folder)) continue;
      jobs.push_back({fmt::format("{} learned by {}", name, objective),
                      [&context, name, objective = objective, folder](const Share& share) {
                        const auto target = find_target(name);
                        const Options& o = context.options();
                        FitOptions options =
                            paper_settings(objective, target->regions().has_value(), o.first_seed, o.quick);
                        options.learn.threads = share.threads;
                        OutputFolder out(folder, FolderKind::kRun);
                        save_fit(out, *target, options, fit(*target, options, share.observer));
                      }});
    }
  }
  context.run(jobs);
}

struct Grid {
  int64_t n;
  double reach;
  std::vector<double> x, y;
  Tensor points;  // [n n, 2]
};
Grid make_grid(int64_t n, double reach) {
  Grid grid{n, reach, {}, {}, at::empty({n * n, 2}, at::kDouble)};
  double* at = grid.points.data_ptr<double>();
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < n; ++i) {
      grid.x.push_back(-reach + (static_cast<double>(i) + 0.5) * 2 * reach / static_cast<double>(n));
      grid.y.push_back(-reach + (static_cast<double>(j) + 0.5) * 2 * reach / static_cast<double>(n));
      *at++ = grid.x.back();
      *at++ = grid.y.back();
    }
  }
  return grid;
}

// A state that held a chain for long would set the scale of colours alone: counts are drawn as at most twice the 99th
// percentile of the cells that have any.
std::vector<double> for_drawing(std::vector<double> counts) {
  std::vector<double> some;
  std::copy_if(counts.begin(), counts.end(), std::back_inserter(some), [](double c) { return c > 0; });
  if (some.empty()) return counts;
  const auto high = some.begin() + static_cast<int64_t>(0.99 * static_cast<double>(some.size() - 1));
  std::nth_element(some.begin(), high, some.end());
  for (double& c : counts) c = std::min(c, 2 * *high);
  return counts;
}

std::vector<double> histogram(const Tensor& draws, const Grid& grid) {
  std::vector<double> count(grid.x.size(), 0.0);
  const Tensor cells =
      ((draws + grid.reach) / (2 * grid.reach) * static_cast<double>(grid.n)).floor().to(at::kLong).contiguous();
  const int64_t* c = cells.data_ptr<int64_t>();
  for (int64_t k = 0; k < cells.size(0); ++k) {
    const int64_t i = c[2 * k], j = c[2 * k + 1];
    if (i >= 0 && i < grid.n && j >= 0 && j < grid.n) count[static_cast<size_t>(j * grid.n + i)] += 1;
  }
  return count;
}

// AR and its bound while ARLB is learned: (step, 1 - bound, log AR, AR).
json learning_history(const Context& context, const std::string& name, const Share& share) {
  const auto target = find_target(name);
  const uint64_t seed = context.options().first_seed;
  const FitOptions options = paper_settings("arlb", target->regions().has_value(), seed, context.options().quick);
  LearnOptions how = options.learn.resolved("realnvp");
  how.window = 10;
  how.batch = 512;
  how.max_iterations = context.options().quick ? 600 : 4000;
  how.patience = how.max_iterations;  // one rate for all steps
  how.reductions = 0;
  how.threads = share.threads;
  how.learning_rate = 5e-4;  // at 2e-3 the bound makes excursions for the sake of a few states
  // The buffer begins with exact draws, so that both are estimated without bias from the first step on. The network
  // begins near the identity, on N(0, I); where that hardly meets the target, on the Gaussian with the target's
  // moments.
  Stream exact(seed, Phase::kReference, 0, Purpose::kExact);
  Population buffer;
  buffer.x = target->exact_draws(4096, exact);
  buffer.log_prob = target->log_prob(buffer.x);
  const int64_t d = target->dim();
  auto begin_on = [&](const Tensor& mean, const Tensor& factor) {
    return make_flow_proposal(options.flow.resolved(d), {mean, factor}, GaussianMixture::standard(d), seed);
  };
  auto flow = begin_on(at::zeros({d}, at::kDouble), at::eye(d, at::kDouble));
  Stream candidates(seed, Phase::kReference, 0, Purpose::kProposal);
  if (overlap(*target, flow->sample(buffer.x.size(0), candidates), buffer.log_prob, flow->log_prob(buffer.x)) < 1e-3) {
    const Moments m = moments(buffer.x);
    flow = begin_on(m.mean, m.factor);
  }
  json rows = json::array();
  for (const auto& row : learn(*target, *flow, buffer, how, share.observer).history) {
    if (!(row.acceptance > 0) || !std::isfinite(row.acceptance_bound)) continue;
    rows.push_back({row.iteration, 1 - row.acceptance_bound, std::log(row.acceptance), row.acceptance});
  }
  return {{"rows", rows}};
}

// [chains, draws, dim] of independent MH.
Tensor independent_chains(Context& context, const Target& target, const Proposal& proposal, int chains, int64_t draws) {
  SampleOptions options;
  options.chains = chains;
  options.draws = draws;
  options.seed = context.options().first_seed;
  options.threads = context.options().threads;
  MemorySink sink(chains, draws, target.dim());
  sample(target, proposal, options, sink, context.observer());
  return sink.draws;
}

// The same of the mixture with a random walk, all chains in one batch: half of the candidates from either, steps of
// the size of a mode.
Tensor walked_chains(Context& context, const Target& target, const Proposal& proposal, int chains, int64_t draws) {
  const at::NoGradGuard no_grad;
  const int64_t d = target.dim();
  const auto kernel = make_random_walk_mixture(density_of(target), proposal, 0.5, at::eye(d, at::kDouble), 0.5);
  const Streams streams{context.options().first_seed, Phase::kComparison};
  Stream noise = streams(Purpose::kLocal), uniforms = streams(Purpose::kLocalAccept), start = streams(Purpose::kStart);
  State state = kernel->init(proposal.sample(chains, start).x);
  Tensor out = at::empty({draws, chains, d}, at::kDouble);
  for (int64_t t = -200; t < draws; ++t) {
    if (context.observer().should_stop()) throw Interrupted("stopped while sampling");
    kernel->step(state, {noise, uniforms});
    if (t >= 0) out[t].copy_(state.x);
  }
  return out.transpose(0, 1).contiguous();
}

void run_correlation(Context& context) {
  const std::vector<double> published = {-0.914, -0.905, -0.956, -0.982};
  std::string csv = "target,iteration,one_minus_bound,log_acceptance\n";
  std::string table =
      "| target | correlation of 1 - ARLB with log AR | of the symmetric KL with log AR | of the ranks | published "
      "|\n|---|---|---|---|---|\n";
  Figure figure{{}, 2, 560, 380};
  auto key = [&](const std::string& name) { return fmt::format("{}-{}", name, context.options().first_seed); };
  std::vector<Job> jobs;
  for (const auto& name : context.chosen(0)) {
    if (context.find(key(name))) continue;
    jobs.push_back({name, [&context, &key, name](const Share& share) {
                      context.keep(key(name), learning_history(context, name, share));
                    }});
  }
  context.run(jobs);
  for (size_t t = 0; t < kTargets.size(); ++t) {
    const auto found = context.find(key(kTargets[t]));
    if (!found) continue;
    const json& cell = *found;
    std::vector<double> step, loss, kl, log_ar, ar;
    for (const auto& row : cell["rows"]) {
      step.push_back(row[0]);
      loss.push_back(row[1]);
      kl.push_back(2 * loss.back() * loss.back());
      log_ar.push_back(row[2]);
      ar.push_back(row[3]);
      csv += fmt::format("{},{},{:.6g},{:.6g}\n", kTargets[t], row[0].get<int64_t>(), loss.back(), log_ar.back());
    }
    const double r = pearson(loss, log_ar);
    table += fmt::format("| {} | {:.3f} | {:.3f} | {:.3f} | {:.3f} |\n", kTargets[t], r, pearson(kl, log_ar),
                         pearson(ranks(loss), ranks(log_ar)), published[t]);
    figure.panels.push_back({fmt::format("{}: correlation {:.3f}", kTargets[t], r),
                             "1 - lower bound of the acceptance rate",
                             "log acceptance rate",
                             {{Draw::kPoints, "", {loss, log_ar}, static_cast<int>(t)}},
                             true});
    figure.panels.push_back(
        {fmt::format("{}: while ARLB is learned", kTargets[t]),
         "learning step",
         "",
         {{Draw::kLine, "acceptance rate", {step, ar}, 1}, {Draw::kLine, "1 - lower bound", {step, loss}, 0}},
         false,
         true});
  }
  context.write("correlation.csv", csv);
  context.write("correlation.md", table);
  context.figure("correlation", figure);
}

void run_proposals(Context& context) {
  std::string table =
      "| target | objective | acceptance in the chain | worst error of a mode's weight |\n|---|---|---|---|\n";
  const Grid grid = make_grid(context.options().quick ? 90 : 150, 7);
  learn_proposals(context, context.chosen(0));
  for (const auto& name : kTargets) {
    if (!std::all_of(kObjectives.begin(), kObjectives.end(),
                     [&](const auto& o) { return is_run(run_of(context, name, o.first)); }))
      continue;
    const auto target = find_target(name);
    Figure figure{{}, 3, 380, 380};
    std::vector<Panel> histograms;
    for (const auto& [objective, title] : kObjectives) {
      const auto proposal = load_fit(run_of(context, name, objective), 2).proposal;
      const Tensor density = proposal->log_prob(grid.points).exp();
      const std::vector<double> level(density.data_ptr<double>(), density.data_ptr<double>() + density.numel());
      const Tensor draws = independent_chains(context, *target, *proposal, 1, 25000)[0];
      const double accepted =
          at::ne(draws.narrow(0, 1, 24999), draws.narrow(0, 0, 24999)).any(1).to(at::kDouble).mean().item<double>();
      std::string error = "";
      if (const auto regions = target->regions()) {
        const Tensor share =
            at::bincount(target->region_of(draws), {}, regions->weights.size(0)).to(at::kDouble) / 25000.0;
        error = fmt::format("{:.4f}", (share - regions->weights).abs().max().item<double>());
      }
      table += fmt::format("| {} | {} | {:.3f} | {} |\n", name, title, accepted, error);
      auto panel = [&](const std::string& text, const std::vector<double>& value) {
        Panel out{text, "x_1", "x_2", {{Draw::kHeat, "", {grid.x, grid.y, value}, 0, false, grid.n}}};
        out.equal_axes = true;
        out.x_range = out.y_range = {{-grid.reach, grid.reach}};
        return out;
      };
      figure.panels.push_back(panel(title + ": learned density", level));
      histograms.push_back(panel(title + ": 25,000 draws by MH", for_drawing(histogram(draws, grid))));
    }
    figure.panels.insert(figure.panels.end(), histograms.begin(), histograms.end());
    context.figure(name, figure);
  }
  context.write("proposals.md", table);
}

// Squared errors of the means of mog6's components, by the number of draws at the component.
constexpr int64_t kComponents = 6;
const std::vector<int64_t> kCounts = {10, 30, 100, 300, 1000, 2000, 3000, 10000};

// chains [runs, draws, 2]: for each count the sum of the errors, and how many components of how many runs had as many
// draws.
json component_errors(const Target& target, const Tensor& chains) {
  const Tensor angle = at::arange(1, kComponents + 1, at::kDouble) * (M_PI / 3);
  const Tensor means = 5 * at::stack({angle.sin(), angle.cos()}, 1);
  std::vector<double> sum(kCounts.size(), 0.0), seen(kCounts.size(), 0.0);
  for (int64_t run = 0; run < chains.size(0); ++run) {
    const Tensor region = target.region_of(chains[run]);
    for (int64_t component = 0; component < kComponents; ++component) {
      const Tensor here = chains[run].index_select(0, at::eq(region, component).nonzero().squeeze(1));
      const Tensor totals = here.cumsum(0);
      for (size_t c = 0; c < kCounts.size(); ++c) {
        if (here.size(0) < kCounts[c]) continue;
        // Which of the means this region belongs to: the nearest to what was seen.
        const Tensor mean = totals[kCounts[c] - 1] / static_cast<double>(kCounts[c]);
        sum[c] += (means - mean).square().sum(1).min().item<double>();
        seen[c] += 1;
      }
    }
  }
  return {{"sum", sum}, {"seen", seen}};
}

void run_random_walk(Context& context) {
  const auto target = find_target("mog6");
  const int runs = context.options().quick ? 20 : 100;
  const int64_t length = context.options().quick ? 8000 : 80000;  // a sixth of it at each component: more than 10,000
  const Grid grid = make_grid(120, 7);
  std::string csv = "proposal,draws_at_component,squared_error,share_that_had_as_many\n";
  std::string table =
      "| proposal | draws at a component | squared error of its mean | share of (run, component) that had as many "
      "|\n|---|---|---|---|\n";
  std::string ess = "| proposal | ESS of 1,000 draws |\n|---|---|\n";
  Panel panel{"mog6: error of the components' means", "draws at the component", "squared error"};
  panel.log_x = panel.log_y = true;
  panel.key = "bottom left";
  Figure histograms{{}, 2, 420, 420};
  int color = 0;
  learn_proposals(context, {"mog6"});
  for (const auto& [objective, title] : kObjectives) {
    const auto proposal = load_fit(run_of(context, "mog6", objective), 2).proposal;
    for (const bool walk : {false, true}) {
      const std::string name = title + (walk ? "+RW" : "");
      const std::string key = fmt::format("{}-{}", name, context.options().first_seed);
      if (!context.find(key)) {
        const Tensor chains = (walk ? walked_chains : independent_chains)(context, *target, *proposal, runs, length);
        json cell = component_errors(*target, chains);
        cell["ess"] = least_ess(*target, truth_of("mog6", *target), chains.narrow(1, 0, 1000).contiguous());
        cell["histogram"] = histogram(chains[0].narrow(0, 0, std::min<int64_t>(length, 25000)), grid);
        context.keep(key, cell);
      }
      const json cell = *context.find(key);
      ess += fmt::format("| {} | {:.0f} |\n", name, cell["ess"].get<double>());
      std::vector<double> n, error;
      for (size_t c = 0; c < kCounts.size(); ++c) {
        const double seen = cell["seen"][c], share = seen / static_cast<double>(kComponents * runs);
        if (seen == 0) continue;
        const auto count = static_cast<double>(kCounts[c]);
        const double mean = cell["sum"][c].get<double>() / seen;
        csv += fmt::format("{},{},{:.6g},{:.4f}\n", name, kCounts[c], mean, share);
        table += fmt::format("| {} | {} | {:.3g} | {:.2f} |\n", name, kCounts[c], mean, share);
        // Where few have as many, these are the chains that stood still: not drawn.
        if (seen < 0.9 * cell["seen"][0].get<double>()) continue;
        n.push_back(count);
        error.push_back(mean);
      }
      panel.layers.push_back({Draw::kLine, name, {n, error}, color, walk});
      if (objective == "vi") {
        const auto counts = for_drawing(cell["histogram"].get<std::vector<double>>());
        Panel draws{name, "x_1", "x_2", {{Draw::kHeat, "", {grid.x, grid.y, counts}, 0, false, grid.n}}};
        draws.equal_axes = true;
        draws.x_range = draws.y_range = {{-grid.reach, grid.reach}};
        histograms.panels.push_back(draws);
      }
    }
    ++color;
  }
  // Independent draws: the mean of n of them has the squared error 2 sd^2 / n, sd 0.5.
  panel.layers.push_back({Draw::kLine, "independent draws", {{10, 10000}, {0.05, 0.00005}}, -1});
  context.write("random-walk.csv", csv);
  context.write("random-walk.md", table + "\n" + ess);
  context.figure("random-walk", {{panel}, 1, 680, 480});
  context.figure("vi", histograms);
}

}  // namespace

Experiment correlation() {
  return {"correlation",
          "Appendix C.5: AR against ARLB while ARLB is learned, on four targets",
          "2 minutes",
          {kTargets},
          run_correlation};
}

Experiment proposals() {
  return {"proposals",
          "Appendix C.6: learned densities and histograms of 25k draws, for VI, AR and ARLB",
          "40 minutes; quick: 3 minutes",
          {kTargets},
          run_proposals};
}

Experiment random_walk() {
  return {"random-walk",
          "Appendix C.7: error of component means with and without a random walk, on mog6",
          "15 minutes; quick: 2 minutes",
          {},
          run_random_walk};
}

}  // namespace hastings::reproduce
