// Tables and figure of Table 1's cells.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "hastings/diagnose/mean_error.h"
#include "table1.h"

namespace hastings::reproduce::table1_parts {
namespace {

constexpr double kSpread = 0.15, kModes = 0.1;  // beyond these a cell is marked

// What there is of one method on one target.
struct Entry {
  std::vector<double> ess, pooled, bulk, learn_seconds;  // by seed; pooled: where L2HMC's authors published
  double rate = 0;                                       // draws a second of all chains: the fastest time there is
  double draws = 0;                                      // of a chain
  std::optional<double> published, published_speed;
  bool wrong = false;  // somewhere without the target's spread or mode weights

  double speed() const { return mean_error(ess).mean / draws * rate; }
  double speed_with_learning() const {
    std::vector<double> each;
    for (size_t k = 0; k < ess.size(); ++k)
      each.push_back(ess[k] * kChains / (learn_seconds[k] + kChains * draws / rate));
    return mean_error(each).mean;
  }
};
using Table = std::map<std::pair<std::string, std::string>, Entry>;  // by row and method

// All finished cells, also those of earlier runs; `csv` becomes one line for each.
Table collect(const Context& context, const std::vector<Row>& rows, std::string& csv) {
  csv =
      "target,method,seed,ess,published,ess_per_second,acceptance,learn_seconds,sample_seconds,mode_error,spread_"
      "error,ess_bulk_of_all_chains,ess_pooled\n";
  const Options& o = context.options();
  Table table;
  for (const auto& row : rows) {
    for (const auto& [method, title] : kMethods) {
      Entry& entry = table[{row.name, method}];
      if (row.published.contains(method)) {
        entry.published = row.published.at(method);
        entry.published_speed = row.published_speed.at(method);
      }
      entry.draws = static_cast<double>(row.draws);
      if (const auto speed = is_flow(method) ? context.find(speed_key(row)) : std::nullopt)
        entry.rate = speed->value("draws_per_second", 0.0);
      for (uint64_t seed = o.first_seed; seed < o.first_seed + static_cast<uint64_t>(o.seeds); ++seed) {
        const auto cell = context.find(key_of(row, method, seed));
        if (!cell) continue;
        auto number = [&](const char* name) {  // what is not a number is stored as null
          const auto found = cell->find(name);
          return found != cell->end() && found->is_number() ? found->get<double>() : std::nan("");
        };
        entry.ess.push_back(number("ess"));
        if (method == "l2hmc") entry.pooled.push_back(number("ess_pooled"));
        entry.bulk.push_back(number("ess_bulk") / kChains);
        entry.learn_seconds.push_back(number("learn_seconds"));
        if (!is_flow(method)) entry.rate = std::max(entry.rate, kChains * entry.draws / number("sample_seconds"));
        entry.wrong |= number("mode_error") > kModes || !(number("spread_error") < kSpread);
        csv += fmt::format("{},{},{},{:.1f},{},{:.0f},{:.4f},{:.2f},{:.3f},{:.4f},{:.4f},{:.0f},{:.0f}\n", row.name,
                           method, seed, number("ess"), entry.published ? fmt::format("{:.0f}", *entry.published) : "",
                           number("ess_per_second"), number("acceptance"), number("learn_seconds"),
                           number("sample_seconds"), number("mode_error"), number("spread_error"), number("ess_bulk"),
                           number("ess_pooled"));
      }
    }
  }
  return table;
}

std::string ess_text(const Entry& entry, int seeds) {
  if (entry.ess.empty()) return entry.published ? fmt::format("– ({:.0f})", *entry.published) : "";
  const MeanError e = mean_error(entry.ess);
  const auto n = static_cast<int>(entry.ess.size());
  std::string text = fmt::format("{:.0f}{}", e.mean, entry.wrong ? "†" : "");
  if (n > 1) text += fmt::format(" ± {:.0f}", e.error);
  if (entry.published) text += fmt::format(" ({:.0f})", *entry.published);
  if (!entry.pooled.empty()) text += fmt::format(", pooled {:.0f}", mean_error(entry.pooled).mean);
  if (n < seeds) text += fmt::format(" [{} seed{}]", n, n > 1 ? "s" : "");
  return text;
}

std::string bulk_text(const Entry& entry) {
  if (entry.bulk.empty()) return "";
  const MeanError e = mean_error(entry.bulk);
  return fmt::format("{:.0f}", e.mean) + (entry.bulk.size() > 1 ? fmt::format(" ± {:.0f}", e.error) : "");
}

// Two digits count: 78,000.
std::string rounded(double value) {
  if (!(value >= 10)) return fmt::format("{:.2g}", value);
  const double unit = std::pow(10, std::floor(std::log10(value)) - 1);
  return fmt::format("{}", fmt::group_digits(std::llround(std::round(value / unit) * unit)));
}

std::string speed_text(const Entry& entry) {
  if (entry.ess.empty() && !entry.published_speed) return "";
  std::string text = entry.ess.empty() ? "–" : rounded(entry.speed());
  if (entry.published_speed) text += fmt::format(" ({})", rounded(*entry.published_speed));
  return text;
}

template <class Text>
std::string markdown(const std::string& corner, const std::vector<Row>& rows, const Table& table, Text&& text) {
  std::string out = fmt::format("| {} |", corner), rule = "|---|";
  for (const auto& [method, title] : kMethods) {
    out += fmt::format(" {} |", title);
    rule += "---|";
  }
  out += "\n" + rule + "\n";
  for (const auto& row : rows) {
    out += fmt::format("| {} ({}) |", row.name, row.draws);
    for (const auto& [method, title] : kMethods) out += fmt::format(" {} |", text(table.at({row.name, method})));
    out += "\n";
  }
  return out;
}

const Row kPlain{"", "", 0}, kPosterior{"", "logistic:", 0};

std::string rivals_text(bool quick) {
  const HmcOptions hmc;
  const L2hmcOptions l2hmc = l2hmc_settings(2, true, 0, quick), l2hmc_high = l2hmc_settings(50, false, 0, quick);
  const AniceOptions anice = anice_settings(kPlain, 0, quick), high = anice_settings(kPosterior, 0, quick);
  return fmt::format(
             "HMC: {} leapfrog steps, identity mass, step size by dual averaging to an acceptance of {}, varied by {} "
             "%. ",
             hmc.leapfrog_steps, hmc.target_acceptance, 100 * hmc.jitter) +
         fmt::format(
             "L2HMC: {} leapfrog steps, {} hidden units ({} from 11 dimensions on), {} steps of {} chains, Adam {}, "
             "where there are modes from temperature {}. ",
             l2hmc.leapfrog_steps, l2hmc.hidden, l2hmc_high.hidden, l2hmc.iterations, l2hmc.chains, l2hmc.learning_rate,
             l2hmc.temperature) +
         fmt::format(
             "A-NICE-MC: {} dimensions of v, {} steps of {} draws, {} critic steps each, Adam {} (posteriors: {} "
             "dimensions of v with {} times the weight, {} steps, standardised coordinates). ",
             anice.velocity, anice.iterations, anice.batch, anice.critic_steps, anice.learning_rate, high.velocity,
             high.velocity_weight, high.iterations);
}

std::string flows_text(bool quick) {
  auto settings = [&](const Row& row, const char* objective) {
    return flow_settings(row, objective, true, 0, quick).learn.resolved("realnvp");
  };
  const LearnOptions ar = settings(kPlain, "ar"), ar_posterior = settings(kPosterior, "ar"),
                     vi = settings(kPlain, "vi"), vi_posterior = settings(kPosterior, "vi");
  return fmt::format(
             "AR, ARLB, VI: the paper's RealNVP, Adam at {} (VI where there are modes: {}), at most {} steps of {} "
             "candidates (posteriors {}), VI {} of {} (posteriors {}). ",
             ar.learning_rate, vi.learning_rate, ar.max_iterations, ar.batch, ar_posterior.max_iterations,
             vi.max_iterations, vi.batch, vi_posterior.max_iterations) +
         fmt::format(
             "The rate falls by half an order after {} steps without progress (VI {}), AR's and ARLB's also when half "
             "of the steps are done, and again when half of what is left. AR begins with ARLB, for {} % of the steps "
             "and until there is overlap. Learning ends early at an acceptance of {} (posteriors: {}), if the first "
             "autocorrelation is below 0.04 too, and when the rate would fall once more after {} falls. ",
             ar.patience * ar.window, vi.patience * vi.window, 100 * ar.lead_share, ar.target_acceptance,
             ar_posterior.target_acceptance, ar.reductions);
}

std::string settings_text(bool quick) {
  return "Settings, the same for every seed. " + rivals_text(quick) + flows_text(quick) +
         "Chains of HMC, A-NICE-MC and L2HMC begin at exact draws (posteriors: near a Laplace approximation), so that "
         "even one that never leaves its mode has the right weights over all chains, but for the chance of the starts "
         "(hence some †); chains of AR, ARLB and VI begin at their own proposals. All have 200 steps of warm-up.\n";
}

Figure figure_of(const std::vector<Row>& rows, const Table& table) {
  Figure figure{{}, 3, 420, 320};
  for (const auto& [method, title] : kMethods) {
    Panel panel{title, "", "ESS / draws"};
    auto marks = [](const char* name, int color) {
      return PlotLayer{Draw::kMarks, name, std::vector<std::vector<double>>(3), color};
    };
    PlotLayer here = marks("here, with standard error", 0), wrong = marks("here, not the target's spread", 2),
              pooled = marks("here, coordinates pooled", 4), published = marks("published", 1);
    for (size_t r = 0; r < rows.size(); ++r) {
      const Entry& entry = table.at({rows[r].name, method});
      panel.x_names.push_back(rows[r].name);
      auto put = [&](PlotLayer& layer, double shift, const std::vector<double>& values) {
        if (values.empty()) return;
        const MeanError e = mean_error(values);
        const auto draws = static_cast<double>(rows[r].draws);
        layer.columns[0].push_back(static_cast<double>(r) + shift);
        layer.columns[1].push_back(e.mean / draws);
        layer.columns[2].push_back(std::isfinite(e.error) ? e.error / draws : 0);
      };
      put(entry.wrong ? wrong : here, -0.1, entry.ess);
      put(pooled, 0, entry.pooled);
      if (entry.published) put(published, 0.1, {*entry.published});
    }
    for (const auto& layer : {here, wrong, pooled, published}) {
      if (!layer.columns[0].empty()) panel.layers.push_back(layer);
    }
    panel.y_range = {{0, 1.6}};
    figure.panels.push_back(panel);
  }
  return figure;
}

}  // namespace

void write_page(Context& context, const std::vector<Row>& rows) {
  const Options& o = context.options();
  std::string csv;
  const Table table = collect(context, rows, csv);
  context.write("table1.csv", csv);
  context.write(
      "table1.md",
      fmt::format(
          "Seeds {} to {}{}. ESS as in the paper's appendix C.1, mean ± standard error over the seeds, published "
          "figures in brackets; of as many draws as stand behind the target. †: in some seed the draws do not have "
          "the target's spread (standard deviation off by more than 15 %) or its mode weights (off by more than 0.1), "
          "whatever the ESS says. An ESS of all draws means only that the first autocorrelation is below 0.05, where "
          "the sum ends. Pooled: as L2HMC's authors take it, over all coordinates together, not the least, and over "
          "all "
          "lags above 0.05, noise included: even independent chains stay below all draws by it.\n\n{}\nToday's "
          "measure: rank-normalised bulk ESS (Vehtari et al. 2021) of all {} chains together, "
          "divided by their number, least over the coordinates. It knows nothing of the truth, sums lags up to "
          "the first negative pair, and may exceed the number of draws, up to about five times, where a chain swings "
          "around "
          "its mean.\n\n{}\nESS a second, of all {} chains, "
          "sampling alone, on one core (published: on a GPU); of a rival the fastest of its seeds. AR, ARLB and "
          "VI have the same network: the share of effective draws times the draws a second of that network, the "
          "fastest of five times.\n\n{}\nThe same with the seconds of learning or tuning, for {} chains of so many "
          "draws; more draws come closer to the table above. Seconds of learning were taken while other cells were "
          "computed.\n\n{}\n{}",
          o.first_seed, o.first_seed + static_cast<uint64_t>(o.seeds) - 1, o.quick ? ", quick settings" : "",
          markdown("ESS of", rows, table, [&](const Entry& e) { return ess_text(e, o.seeds); }), kChains,
          markdown("bulk ESS of", rows, table, bulk_text), kChains, markdown("ESS/s", rows, table, speed_text), kChains,
          markdown("ESS/s, learning included", rows, table,
                   [](const Entry& e) { return e.ess.empty() ? "" : rounded(e.speed_with_learning()); }),
          settings_text(o.quick)));
  context.figure("table1", figure_of(rows, table));
}

}  // namespace hastings::reproduce::table1_parts
