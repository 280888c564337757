#include "hastings/report/html.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/core/json.h"
#include "hastings/diagnose/ess.h"
#include "hastings/diagnose/meeting.h"
#include "hastings/io/stored_draws.h"
#include "hastings/io/stored_fit.h"
#include "hastings/io/stored_summary.h"
#include "hastings/report/figure.h"

namespace hastings {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr size_t kShown = 6;  // parameters with plots of their own
constexpr int64_t kTracePoints = 1000;
constexpr int64_t kPairPoints = 2000;
constexpr int64_t kMostDraws = int64_t{1} << 20;  // of all chains, in the pictures

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string base64(const std::string& bytes) {
  static const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve(bytes.size() * 4 / 3 + 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k) word = word << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) out += i + k <= bytes.size() ? digits[word >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::vector<double> numbers(const Tensor& t) {
  const Tensor flat = t.to(at::kDouble).contiguous().view({-1});
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

std::vector<double> upto(int64_t n, double from = 0, double step = 1) {
  std::vector<double> x;
  for (int64_t i = 0; i < n; ++i) x.push_back(from + step * static_cast<double>(i));
  return x;
}

struct Shown {
  std::string name;
  Tensor draws;  // [chains, draws]
};

Figure traces(const std::vector<Shown>& shown) {
  Figure figure{{}, 1, 1000, 190};
  for (const auto& p : shown) {
    const int64_t every = std::max<int64_t>(1, p.draws.size(1) / kTracePoints);
    Panel panel{"", "", p.name};
    for (int64_t c = 0; c < std::min<int64_t>(p.draws.size(0), 4); ++c) {
      const Tensor kept = p.draws[c].slice(0, 0, p.draws.size(1), every);
      panel.layers.push_back(
          {Draw::kLine, "", {upto(kept.size(0), 0, static_cast<double>(every)), numbers(kept)}, static_cast<int>(c)});
    }
    figure.panels.push_back(panel);
  }
  figure.panels.back().x_label = "draw";
  return figure;
}

// Ranks of each chain's draws among all: flat where the chains agree.
Figure ranks(const std::vector<Shown>& shown) {
  constexpr int64_t kBins = 20;
  Figure figure{{}, 3, 340, 260};
  for (const auto& p : shown) {
    const int64_t chains = p.draws.size(0), n = p.draws.size(1);
    const Tensor rank = p.draws.reshape({-1}).argsort().argsort().view({chains, n});
    Panel panel{p.name, "rank", "relative frequency"};
    for (int64_t c = 0; c < std::min<int64_t>(chains, 4); ++c) {
      const Tensor count =
          at::bincount((rank[c] * kBins).div(chains * n, "floor").clamp_max(kBins - 1), {}, kBins).to(at::kDouble) *
          (static_cast<double>(kBins) / static_cast<double>(n));
      panel.layers.push_back({Draw::kLine,
                              fmt::format("chain {}", c + 1),
                              {upto(kBins, 0.5 / kBins, 1.0 / kBins), numbers(count)},
                              static_cast<int>(c)});
    }
    panel.layers.push_back({Draw::kLine, "", {{0, 1}, {1, 1}}, -1, true});
    panel.y_range = {{0, 2}};
    panel.key = "bottom right maxrows 2";  // below the lines
    figure.panels.push_back(panel);
  }
  return figure;
}

Figure autocorrelations(const std::vector<Shown>& shown) {
  Figure figure{{}, 3, 340, 240};
  for (const auto& p : shown) {
    const int64_t lags = std::min<int64_t>(41, p.draws.size(1));
    Panel panel{p.name, "lag", "autocorrelation"};
    for (int64_t c = 0; c < std::min<int64_t>(p.draws.size(0), 4); ++c) {
      const Tensor covariance = autocovariance(p.draws[c].contiguous()).narrow(0, 0, lags);
      panel.layers.push_back({Draw::kLine, "", {upto(lags), numbers(covariance / covariance[0])}, static_cast<int>(c)});
    }
    panel.y_range = {{-0.2, 1.05}};
    figure.panels.push_back(panel);
  }
  return figure;
}

Figure pairs(const std::vector<Shown>& shown) {
  const size_t n = std::min<size_t>(shown.size(), 4);
  Figure figure{{}, static_cast<int>(n) - 1, 300, 280};
  if (n < 2) return figure;
  auto some = [](const Tensor& draws) {
    const Tensor flat = draws.reshape({-1});
    return numbers(flat.slice(0, 0, flat.size(0), std::max<int64_t>(1, flat.size(0) / kPairPoints)));
  };
  for (size_t row = 1; row < n; ++row) {
    for (size_t column = 0; column + 1 < n; ++column) {
      Panel panel{"", shown[column].name, shown[row].name};
      if (column < row)
        panel.layers.push_back({Draw::kPoints, "", {some(shown[column].draws), some(shown[row].draws)}, 0});
      figure.panels.push_back(panel);  // panels without layers stay empty
    }
  }
  return figure;
}

Figure levels(const Target& target, const Proposal& proposal, const Tensor& draws) {
  constexpr int64_t kCells = 120;
  const Tensor flat = draws.reshape({-1, 2});
  std::vector<double> low, high;
  for (int64_t j = 0; j < 2; ++j) {
    const double a = flat.select(1, j).min().item<double>(), b = flat.select(1, j).max().item<double>();
    low.push_back(a - 0.08 * (b - a));
    high.push_back(b + 0.08 * (b - a));
  }
  std::vector<double> x, y;
  for (int64_t j = 0; j < kCells; ++j) {
    for (int64_t i = 0; i < kCells; ++i) {
      x.push_back(low[0] + (high[0] - low[0]) * (static_cast<double>(i) + 0.5) / kCells);
      y.push_back(low[1] + (high[1] - low[1]) * (static_cast<double>(j) + 0.5) / kCells);
    }
  }
  const Tensor points = at::stack({at::tensor(x, at::kDouble), at::tensor(y, at::kDouble)}, 1);
  const Tensor target_log = target.log_prob(points).nan_to_num(-1e300),
               proposal_log = proposal.log_prob(points).nan_to_num(-1e300);
  const auto names = target.parameter_names();
  Figure figure{{}, 2, 460, 420};
  for (const auto& [title, value] : {std::pair<std::string, Tensor>("target density", target_log),
                                     std::pair<std::string, Tensor>("learned proposal", proposal_log)}) {
    Panel panel{
        title, names[0], names[1], {{Draw::kHeat, "", {x, y, numbers((value - value.max()).exp())}, 0, false, kCells}}};
    panel.x_range = {{low[0], high[0]}};
    panel.y_range = {{low[1], high[1]}};
    figure.panels.push_back(panel);
  }
  return figure;
}

Figure learning(const std::string& history) {
  std::vector<double> step, acceptance, bound, seconds;
  std::istringstream lines(history);
  std::string line, field;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::vector<std::string> fields;
    std::istringstream row(line);
    while (std::getline(row, field, ',')) fields.push_back(field);
    if (fields.size() < 8 || fields[0] == "anneal") continue;
    step.push_back(std::atof(fields[1].c_str()));
    acceptance.push_back(std::atof(fields[3].c_str()));
    bound.push_back(std::max(0.0, std::atof(fields[4].c_str())));
    seconds.push_back(std::atof(fields[7].c_str()));
  }
  if (step.empty()) return {};
  Panel by_step{
      "",
      "learning step",
      "",
      {{Draw::kLine, "acceptance rate", {step, acceptance}, 0}, {Draw::kLine, "its lower bound", {step, bound}, 1}}};
  by_step.y_range = {{0, 1.02}};
  by_step.key = "bottom right";
  Panel by_time = by_step;
  by_time.x_label = "seconds";
  by_time.layers[0].columns[0] = by_time.layers[1].columns[0] = seconds;
  return {{by_step, by_time}, 2, 460, 320};
}

Figure meetings(const Meeting& meeting) {
  const int64_t longest = *std::max_element(meeting.times.begin(), meeting.times.end());
  const int64_t shown = std::min<int64_t>(longest + 2, 400);
  std::vector<double> count(static_cast<size_t>(shown), 0.0), bound;
  for (const int64_t t : meeting.times) count[static_cast<size_t>(std::min(t, shown - 1))] += 1;
  for (int64_t t = 0; t < shown; ++t) bound.push_back(std::max(meeting.bound(t), 1e-4));
  Panel times{"meeting times of coupled chains", "steps", "pairs", {{Draw::kBars, "", {upto(shown), count}, 0}}};
  Panel distance{"bound on the distance to stationarity",
                 "steps",
                 "total variation, at most",
                 {{Draw::kLine, "", {upto(shown), bound}, 1}}};
  distance.log_y = true;
  return {{times, distance}, 2, 460, 300};
}

std::string cell(double value, const char* format) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : "–";
}

std::string parameter_table(const RunSummary& s) {
  std::string html =
      "<table><tr><th>parameter<th>mean<th>MCSE<th>sd<th>5 %<th>50 %<th>95 %<th>ESS bulk<th>ESS tail<th>R-hat</tr>\n";
  for (const auto& p : s.parameters) {
    html += fmt::format("<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>\n", escaped(p.name),
                        cell(p.mean, "{:.4g}"), cell(p.mcse, "{:.2g}"), cell(p.sd, "{:.4g}"), cell(p.q5, "{:.4g}"),
                        cell(p.q50, "{:.4g}"), cell(p.q95, "{:.4g}"), cell(p.ess_bulk, "{:.0f}"),
                        cell(p.ess_tail, "{:.0f}"), cell(p.rhat, "{:.4f}"));
  }
  return html + "</table>\n";
}

const char* kStyle =
    "body{font:15px/1.5 sans-serif;max-width:1080px;margin:2em auto;padding:0 1em;color:#222}"
    "h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em;border-bottom:1px solid #ddd}"
    "table{border-collapse:collapse;font-size:13px}td,th{padding:3px 10px;text-align:right;border-bottom:1px solid "
    "#eee}"
    "td:first-child,th:first-child{text-align:left}img{max-width:100%}"
    ".verdict{padding:.8em 1em;border-left:6px solid "
    "#d55e00;background:#fdf3ec}.good{border-color:#009e73;background:#eef8f4}"
    "details{margin:.4em 0}small{color:#666}";

}  // namespace

std::string write_report(OutputFolder& out, const Target& target, const Proposal& proposal) {
  const std::string& folder = out.path();
  const StoredSummary run = load_summary(folder);
  const RunSummary& summary = run.summary;
  const json config = read_json(folder + "/config.json");
  const StoredDraws stored(folder);
  const int64_t most = std::max<int64_t>(1000, kMostDraws / stored.chains()), used = std::min(stored.draws(), most);
  auto output = [&](int64_t i) {  // [chains, used]
    std::vector<Tensor> chains;
    for (int64_t c = 0; c < stored.chains(); ++c) chains.push_back(stored.read("draws", c, 0, used).select(1, i));
    return at::stack(chains).contiguous();
  };

  // Plots of the parameters with the least effective draws: if these are well, all are.
  std::vector<size_t> order(summary.parameters.size());
  std::iota(order.begin(), order.end(), size_t{0});
  auto ess = [&](size_t i) {
    const double e = summary.parameters[i].ess_bulk;
    return std::isfinite(e) ? e : -1.0;
  };
  if (order.size() > kShown) {
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ess(a) < ess(b); });
    order.resize(kShown);
    std::sort(order.begin(), order.end());
  }
  std::vector<Shown> shown;
  for (const size_t i : order) shown.push_back({summary.parameters[i].name, output(static_cast<int64_t>(i))});

  const bool good = summary.good;
  std::string html = fmt::format(
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}: "
      "hastings</title><style>{1}</style></head><body>\n<h1>{0}</h1>\n",
      escaped(target.name()), kStyle);
  html += fmt::format("<div class=\"verdict{}\" id=\"verdict\">", good ? " good" : "");
  for (const auto& line : summary.verdict) html += fmt::format("<div>{}{}</div>", good ? "✓ " : "⚠ ", escaped(line));
  html += "</div>\n<table>";
  auto fact = [&](const char* name, const std::string& value) {
    html += fmt::format("<tr><td>{}<td>{}</tr>\n", name, value);
  };
  fact("dimension", fmt::format("{}", target.dim()));
  fact("chains × draws", fmt::format("{} × {}", summary.chains, summary.draws));
  fact("acceptance rate (95 % interval)",
       fmt::format("{} ({} to {})", cell(summary.acceptance, "{:.4f}"), cell(summary.acceptance_interval[0], "{:.4f}"),
                   cell(summary.acceptance_interval[1], "{:.4f}")));
  fact("log evidence", fmt::format("{} ± {}", cell(summary.log_z, "{:.5g}"), cell(summary.log_z_error, "{:.2g}")));
  fact("Pareto k of the weights", cell(summary.pareto_k, "{:.2f}"));
  fact("learning, sampling",
       fmt::format("{} s, {} s", cell(summary.learn_seconds, "{:.2f}"), cell(summary.sample_seconds, "{:.3g}")));
  fact("effective draws a second, sampling (with learning)",
       fmt::format("{} ({})", cell(summary.ess_per_second, "{:.0f}"),
                   cell(summary.ess_per_second_with_learning, "{:.0f}")));
  const int64_t longest = summary.longest_run;
  fact("longest stay at one state", fmt::format("{} step{}", longest, longest == 1 ? "" : "s"));
  html += "</table>\n<h2>Parameters</h2>\n" + parameter_table(summary);

  auto section = [&](const char* id, const char* title, const std::string& note, const Figure& figure) {
    if (figure.panels.empty()) return;
    const std::string stem = write_figure(out, fmt::format("report/{}", id), figure);
    html += fmt::format("<h2>{}</h2>\n{}<img id=\"{}\" alt=\"{}\" src=\"data:image/png;base64,{}\">\n", title,
                        note.empty() ? "" : "<p><small>" + note + "</small></p>", id, title,
                        base64(read_file(stem + ".png")));
  };
  if (used < stored.draws())
    html += fmt::format("<p><small>The pictures show the first {} draws of each chain.</small></p>\n", used);
  const std::string which = summary.parameters.size() > kShown
                                ? fmt::format("The {} parameters with the least effective draws.", kShown)
                                : "";
  section("trace", "Traces", which, traces(shown));
  section("rank", "Ranks of the draws by chain", "Flat, up to noise, where the chains agree.", ranks(shown));
  section("autocorrelation", "Autocorrelation", "", autocorrelations(shown));
  section("pairs", "Pairs", "", pairs(shown));
  if (target.dim() == 2 && target.output_names() == target.parameter_names())
    section("levels", "Target and learned proposal", "Each relative to its maximum.",
            levels(target, proposal, at::stack({output(0), output(1)}, -1)));
  section("learning", "Learning", "", learning(read_file(folder + "/history.csv")));
  if (summary.mixing_steps) {
    MeetingOptions options;
    options.seed = run.request.options.seed;
    section("meeting", "Convergence of the chain",
            "Pairs of chains driven by the same candidates and uniforms; their meeting times bound the distance to "
            "stationarity.",
            meetings(meeting_times(target, proposal, options)));
  }
  html += fmt::format(
      "<h2>Configuration</h2><details><summary>every option</summary><pre>{}</pre></details>\n<p><small>hastings "
      "{}</small></p></body></html>\n",
      escaped(config.dump(2)), version());
  const std::string page = out.file("report.html");
  write_file(page, html);
  return page;
}

}  // namespace hastings
