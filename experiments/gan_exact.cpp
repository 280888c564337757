// The filter on exact ground: two problems where the densities of target and generator are known, so that the filter
// with the exact ratio must give the target, a learned ratio must come close, and a constant must change nothing.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "hastings/diagnose/mean_error.h"
#include "hastings/gan/calibrate/calibrate.h"
#include "hastings/gan/calibrate/quality.h"
#include "hastings/gan/filter/filter.h"
#include "reproduce.h"

namespace hastings::reproduce {
namespace {

using nlohmann::json;

// A mixture of isotropic Gaussians.
struct Mixture {
  Tensor means;  // [k, d]
  std::vector<double> sd, weight;

  Tensor sample(int64_t n, Stream& stream) const {
    const Tensor noise = stream.normal({n, means.size(1)});
    const Tensor ends = at::tensor(weight, at::kDouble).cumsum(0), last = at::full({1}, means.size(0) - 1, at::kLong);
    const Tensor component = at::minimum(at::searchsorted(ends, stream.uniform({n})), last);
    return means.index_select(0, component) +
           noise * at::tensor(sd, at::kDouble).index_select(0, component).unsqueeze(1);
  }
  Tensor log_density(const Tensor& x) const {
    std::vector<Tensor> parts;
    const auto d = static_cast<double>(means.size(1));
    for (size_t k = 0; k < sd.size(); ++k) {
      const Tensor gaps = (x - means[static_cast<int64_t>(k)]).square().sum(1);
      parts.push_back(std::log(weight[k]) - d * std::log(sd[k] * std::sqrt(2 * std::numbers::pi)) -
                      gaps / (2 * sd[k] * sd[k]));
    }
    return at::logsumexp(at::stack(parts, 1), 1);
  }
};

struct Problem {
  std::string name;
  Mixture target, generator;
  double reach, spacing;  // of the bumps the discriminator's features are made of
};

Problem line() {
  Problem p{"1-d", {}, {}, 6, 0.25};
  p.target = {at::tensor({-2.0, 2.0}, at::kDouble).view({2, 1}), {0.5, 0.7}, {0.5, 0.5}};
  p.generator = {at::tensor({0.5}, at::kDouble).view({1, 1}), {2.2}, {1}};
  return p;
}

// A 5 x 5 grid. The generator smears the modes, prefers some to others, and puts a sixth of its mass between them.
Problem grid() {
  Problem p{"25 Gaussians", {}, {}, 2.8, 0.2};
  std::vector<Tensor> means;
  for (int i = 0; i < 25; ++i) {
    means.push_back(at::tensor({i % 5 - 2.0, i / 5 - 2.0}, at::kDouble));
    p.target.sd.push_back(0.1);
    p.target.weight.push_back(1.0 / 25);
    p.generator.sd.push_back(0.2);
    p.generator.weight.push_back(5.0 / 6 * (0.4 + 1.2 * i / 24) / 25);
  }
  p.target.means = at::stack(means);
  means.push_back(at::zeros({2}, at::kDouble));
  p.generator.means = at::stack(means);
  p.generator.sd.push_back(1.5);
  p.generator.weight.push_back(1.0 / 6);
  return p;
}

// Bumps on a regular grid: what the discriminator's last layer sees.
Tensor bumps(const Problem& p, const Tensor& x) {
  const auto count = static_cast<int64_t>(std::lround(2 * p.reach / p.spacing)) + 1;
  const Tensor axis = at::linspace(-p.reach, p.reach, count, at::kDouble);
  Tensor out = (-(x.select(1, 0).unsqueeze(1) - axis).square() / (2 * p.spacing * p.spacing)).exp();
  if (x.size(1) == 2) {
    const Tensor other = (-(x.select(1, 1).unsqueeze(1) - axis).square() / (2 * p.spacing * p.spacing)).exp();
    out = (out.unsqueeze(2) * other.unsqueeze(1)).flatten(1);
  }
  return out.to(at::kFloat);
}

Opinions opinions(const Problem& p, const Tensor& x) { return {at::zeros({x.size(0)}, at::kDouble), bumps(p, x)}; }

// Bins (1-d), or the neighbourhoods of the modes and "elsewhere" (2-d).
Tensor cells(const Tensor& x) {
  if (x.size(1) == 1) return ((x.select(1, 0) + 6) / 12 * 60).floor().clamp(0, 59).to(at::kLong);
  const Tensor nearest = x.round().clamp(-2, 2);
  const Tensor near = (x - nearest).square().sum(1) < 0.09;  // three standard deviations of a mode
  const Tensor index = ((nearest.select(1, 1) + 2) * 5 + nearest.select(1, 0) + 2).to(at::kLong);
  return at::where(near, index, at::full_like(index, 25));
}

// Half the sum over cells of |share of the draws - share of many exact draws|.
double total_variation(const Problem& p, const Tensor& draws, const Tensor& exact) {
  const int64_t n = p.target.means.size(1) == 1 ? 60 : 26;
  auto shares = [&](const Tensor& x) {
    return at::bincount(cells(x), {}, n).to(at::kDouble) / static_cast<double>(x.size(0));
  };
  return 0.5 * (shares(draws) - shares(exact)).abs().sum().item<double>();
}

PlotLayer cloud(const Tensor& x, int color) {
  PlotLayer layer;
  layer.draw = Draw::kPoints;
  layer.color = color;
  layer.columns.resize(2);
  for (int64_t i = 0; i < std::min<int64_t>(x.size(0), 4000); ++i) {
    layer.columns[0].push_back(x[i][0].item<double>());
    layer.columns[1].push_back(x[i][1].item<double>());
  }
  return layer;
}

PlotLayer histogram(const Tensor& x, const std::string& title, int color) {
  PlotLayer layer;
  layer.title = title;
  layer.color = color;
  layer.columns.resize(2);
  const Tensor counts = at::histc(x.select(1, 0), 80, -6, 6);
  for (int64_t i = 0; i < 80; ++i) {
    layer.columns[0].push_back(-6 + 0.15 * (static_cast<double>(i) + 0.5));
    layer.columns[1].push_back(counts[i].item<double>() / static_cast<double>(x.size(0)) / 0.15);
  }
  return layer;
}

// A last layer on the bumps; its penalty by the log-loss on a third of the samples.
Calibration learn_ratio(const Opinions& real, const Opinions& fake) {
  const int64_t fit = real.size() * 2 / 3, rest = real.size() - fit;
  Calibration best;
  double best_loss = INFINITY;
  for (auto& c :
       fit_calibrations(CalibratorKind::kHead, {1e-4, 1e-3, 1e-2, 1e-1, 1.0}, real.rows(0, fit), fake.rows(0, fit))) {
    const double loss = calibration_quality(c.apply(real.rows(fit, rest)), c.apply(fake.rows(fit, rest))).log_loss;
    if (loss < best_loss) {
      best_loss = loss;
      best = std::move(c);
    }
  }
  return best;
}

struct Outcome {
  Tensor draws;
  Filtered filtered;
};

Outcome filter(const Tensor& proposals, const Tensor& weights, ProtocolKind protocol, int64_t k,
               const Streams& streams) {
  Filter f({protocol, proposals.size(0) / k, k}, {}, streams);
  const Tensor w = weights.contiguous();
  f.feed({w.data_ptr<double>(), static_cast<size_t>(w.size(0))});
  Outcome out;
  out.filtered = f.finish();
  out.draws = proposals.index_select(0, at::tensor(out.filtered.chosen, at::kLong));
  return out;
}

void run_exact_filter(Context& context) {
  const int64_t outputs = context.options().quick ? 4000 : 20000, k = 20,
                training = context.options().quick ? 8000 : 30000;
  std::string table = "| problem | samples | total variation | acceptance | different |\n|---|---|---|---|---|\n";
  uint64_t problem = 0;
  for (const Problem& p : {line(), grid()}) {
    ++problem;
    std::map<std::string, std::vector<double>> distance;
    std::map<std::string, double> acceptance, unique;
    std::vector<std::string> order = {"exact draws", "generator", "MH, exact ratio", "MH, learned ratio",
                                      "MH, constant (placebo)"};
    std::map<std::string, Tensor> shown;
    for (int s = 0; s < context.options().seeds; ++s) {
      const uint64_t seed = context.options().first_seed + static_cast<uint64_t>(s);
      auto streams = [&](uint64_t part) { return Streams{seed, Phase::kExactGan, 8 * problem + part}; };
      Stream proposal_stream = streams(0)(Purpose::kProposal), exact_stream = streams(0)(Purpose::kExact),
             data_stream = streams(0)(Purpose::kData);
      const Tensor proposals = p.generator.sample(outputs * k, proposal_stream);
      const Tensor truth = p.target.sample(outputs * 10, exact_stream), fresh = p.target.sample(outputs, exact_stream);
      // The learned ratio: cross-entropy between samples of both, nothing else known.
      const Opinions real = opinions(p, p.target.sample(training, data_stream)),
                     fake = opinions(p, p.generator.sample(training, data_stream));
      const Calibration head = learn_ratio(real, fake);
      std::vector<Tensor> learned;
      for (const Tensor& chunk : proposals.split(20000)) learned.push_back(head.apply(opinions(p, chunk)));
      const Tensor exact = p.target.log_density(proposals) - p.generator.log_density(proposals);
      const std::map<std::string, Outcome> outcomes = {
          {"generator", filter(proposals, at::zeros_like(exact), ProtocolKind::kPlain, k, streams(1))},
          {"MH, exact ratio", filter(proposals, exact, ProtocolKind::kChain, k, streams(2))},
          {"MH, learned ratio", filter(proposals, at::cat(learned), ProtocolKind::kChain, k, streams(3))},
          {"MH, constant (placebo)",
           filter(proposals, at::full_like(exact, 0.3), ProtocolKind::kChain, k, streams(4))}};
      distance["exact draws"].push_back(total_variation(p, fresh, truth));
      unique["exact draws"] += 1;
      for (const auto& [name, o] : outcomes) {
        distance[name].push_back(total_variation(p, o.draws, truth));
        acceptance[name] += o.filtered.acceptance;
        unique[name] += o.filtered.unique;
        if (s == 0) shown[name] = o.draws;
      }
      if (s == 0) shown["exact draws"] = fresh;
    }
    const double n = context.options().seeds;
    for (const auto& name : order) {
      const MeanError d = mean_error(distance[name]);
      table += fmt::format("| {} | {} | {:.4f}{} | {} | {:.1f} % |\n", p.name, name, d.mean,
                           n > 1 ? fmt::format(" ± {:.4f}", d.error) : "",
                           name.starts_with("MH") ? fmt::format("{:.3f}", acceptance[name] / n) : "",
                           100 * unique[name] / n);
    }
    Figure figure;
    if (p.target.means.size(1) == 2) {
      figure.columns = 4;
      figure.width = figure.height = 300;
      for (const auto& name : {"generator", "MH, learned ratio", "MH, exact ratio", "exact draws"}) {
        Panel panel;
        panel.title = name;
        panel.equal_axes = true;
        panel.x_range = panel.y_range = std::array<double, 2>{-3, 3};
        panel.layers = {cloud(shown[name], 0)};
        figure.panels.push_back(panel);
      }
      context.figure("grid", figure);
    } else {
      Panel panel;
      panel.x_label = "x";
      panel.y_label = "density";
      panel.layers = {histogram(shown["generator"], "generator", -1),
                      histogram(shown["MH, learned ratio"], "MH, learned ratio", 1),
                      histogram(shown["MH, exact ratio"], "MH, exact ratio", 0)};
      PlotLayer curve;
      curve.title = "target";
      curve.dashed = true;
      curve.color = 2;
      curve.columns.resize(2);
      for (double x = -6; x <= 6; x += 0.05) {
        curve.columns[0].push_back(x);
        curve.columns[1].push_back(std::exp(p.target.log_density(at::full({1, 1}, x, at::kDouble)).item<double>()));
      }
      panel.layers.push_back(curve);
      figure.panels = {panel};
      figure.width = 640;
      context.figure("line", figure);
    }
  }
  context.tell(fmt::format("{} outputs, {} proposals an output, ratio learned from {} samples of each\n{}", outputs, k,
                           training, table));
  context.write("table.md", table);
}

}  // namespace

Experiment exact_filter() {
  return {"exact-filter",
          "Section 4.2 on exact ground: the filter with the exact, a learned and a constant ratio",
          "a minute",
          {},
          run_exact_filter};
}

}  // namespace hastings::reproduce
