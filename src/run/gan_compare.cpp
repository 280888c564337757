#include "hastings/run/gan_compare.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <boost/math/distributions/students_t.hpp>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/core/json.h"
#include "hastings/diagnose/frechet.h"
#include "hastings/diagnose/mean_error.h"
#include "hastings/gan/calibrate/choice_file.h"

namespace hastings {

using nlohmann::json;
namespace fs = std::filesystem;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CompareCell, protocol, seed, distance, acceptance, unique, seconds, longest_run)

namespace {

// A finished cell, if the file holds one of the same circumstances; a damaged one is as good as none.
std::optional<CompareCell> stored_cell(const std::string& path, const std::string& identity) {
  try {
    const json stored = read_json(path);
    if (stored.at("identity") == identity) return stored.at("cell").get<CompareCell>();
  } catch (const DataError&) {
  } catch (const json::exception&) {
  }
  return {};
}

}  // namespace

void CompareOptions::validate() const {
  if (outputs < 100) throw ConfigError(fmt::format("outputs {}: at least 100 for a distance", outputs));
  if (per_output < 1) throw ConfigError(fmt::format("proposals per output {}: must be positive", per_output));
  if (seeds < 1) throw ConfigError(fmt::format("seeds {}: must be positive", seeds));
}

Comparison compare_gan(OutputFolder& run, const Pair& pair, const ChosenCalibration& chosen, const SplitImages& images,
                       const FeatureNetwork& features, const CompareOptions& o, Observer& observer) {
  o.validate();
  Comparison out;
  out.features = features.name();
  const FeatureMoments reference = feature_moments(features(images.part(images.splits.reference), o.threads));
  // Shuffled: the first images of a data set may be easier than the last.
  const Tensor held_out = images.part(images.splits.calibrate)
                              .index_select(0, Stream(o.first_seed, Phase::kCompareImages, 0, Purpose::kBatch)
                                                   .permutation(static_cast<int64_t>(images.splits.calibrate.size())));
  out.real_count = std::min(held_out.size(0), o.outputs);
  out.real = frechet_distance(feature_moments(features(held_out.narrow(0, 0, out.real_count), o.threads)), reference);

  std::vector<std::string> protocols = {"plain", to_string(chosen.protocol)};
  if (chosen.protocol == ProtocolKind::kPlain) protocols.pop_back();
  protocols.insert(protocols.end(), o.rivals.begin(), o.rivals.end());
  // What a cell depends on besides protocol and seed.
  const std::string identity = fmt::format("{}|{}|{}|{}|{}|{}|{}|{}", features.name(), o.outputs, o.per_output,
                                           to_string(chosen.calibration.method), chosen.calibration.penalty,
                                           chosen.calibration.bias, chosen.expected.distance, images.data.spec);
  for (int s = 0; s < o.seeds; ++s) {
    const uint64_t seed = o.first_seed + static_cast<uint64_t>(s);
    const Proposals proposals(pair, seed, Phase::kCompare, o.threads);
    auto path = [&](const std::string& protocol) {
      return run.file(fmt::format("compare/{}-{}.json", protocol, seed));
    };
    std::vector<FilterOptions> missing;
    for (const auto& protocol : protocols) {
      if (fs::exists(path(protocol))) {
        if (const auto cell = stored_cell(path(protocol), identity)) {
          out.cells.push_back(*cell);
          continue;
        }
      }
      missing.push_back({parse_protocol(protocol), o.outputs, o.per_output});
    }
    if (missing.empty()) continue;
    if (observer.should_stop()) throw Interrupted("interrupted; finished cells are kept");
    const auto samples = filter_proposals(proposals, chosen, missing, {seed, Phase::kCompareFilter}, observer);
    for (size_t i = 0; i < missing.size(); ++i) {
      const auto begin = std::chrono::steady_clock::now();
      const Filtered& f = samples[i].filtered;
      CompareCell cell;
      cell.protocol = to_string(missing[i].protocol);
      cell.seed = seed;
      cell.distance = frechet_distance(feature_moments(features(proposals.render(f.chosen), o.threads)), reference);
      cell.acceptance = f.acceptance;
      cell.unique = f.unique;
      cell.longest_run = f.longest_run;
      cell.seconds = samples[i].network_seconds + samples[i].other_seconds +
                     std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      for (const auto& w : samples[i].warnings)
        out.warnings.push_back(fmt::format("{}, seed {}: {}", cell.protocol, seed, w));
      write_file(path(cell.protocol), json{{"identity", identity}, {"cell", cell}}.dump(2) + "\n");
      out.cells.push_back(cell);
    }
  }
  auto distances = [&](const std::string& protocol) {
    std::vector<double> v;
    for (const auto& c : out.cells) {
      if (c.protocol == protocol) v.push_back(c.distance);
    }
    return v;
  };
  const auto plain = distances("plain");
  for (const auto& protocol : protocols) {
    CompareRow row;
    row.protocol = protocol;
    const auto own = distances(protocol);
    const MeanError value = mean_error(own);
    row.mean = value.mean;
    row.error = value.error;
    std::vector<double> gaps;
    for (size_t i = 0; i < own.size(); ++i) gaps.push_back(own[i] - plain[i]);
    const MeanError gap = mean_error(gaps);
    row.difference = gap.mean;
    row.difference_error = gap.error;
    if (o.seeds > 1) {
      const double t = boost::math::quantile(boost::math::students_t(o.seeds - 1), 0.975);
      row.low = gap.mean - t * gap.error;
      row.high = gap.mean + t * gap.error;
    }
    for (const auto& c : out.cells) {
      if (c.protocol != protocol) continue;
      row.acceptance += c.acceptance / o.seeds;
      row.unique += c.unique / o.seeds;
      row.seconds += c.seconds / o.seeds;
    }
    out.rows.push_back(row);
  }
  return out;
}

std::string comparison_markdown(const Comparison& c, const CompareOptions& o) {
  std::string text = fmt::format(
      "Fréchet distance on {} features, {} outputs, {} proposals an output, {} seeds from {}; real against real {:.2f} "
      "({} images).\n\n"
      "| samples | distance | difference from plain | 95 % interval | acceptance | different | seconds "
      "|\n|---|---|---|---|---|---|---|\n",
      c.features, o.outputs, o.per_output, o.seeds, o.first_seed, c.real, c.real_count);
  for (const auto& r : c.rows) {
    const bool plain = r.protocol == "plain";
    text += fmt::format("| {} | {:.2f} ± {:.2f} | {} | {} | {} | {:.1f} % | {:.0f} |\n", r.protocol, r.mean, r.error,
                        plain ? "" : fmt::format("{:+.2f} ± {:.2f}", r.difference, r.difference_error),
                        plain || o.seeds < 2 ? "" : fmt::format("{:.2f} to {:.2f}", r.low, r.high),
                        plain ? "" : fmt::format("{:.3f}", r.acceptance), 100 * r.unique, r.seconds);
  }
  return text;
}

Comparison gan_compare(const GanCompareRequest& request, Observer& observer) {
  const Pair pair = pair_of_run(request.run);
  OutputFolder run(request.run, FolderKind::kGan, OutputFolder::Use::kGoOn);
  const ChosenCalibration chosen = load_calibration(run.path());
  CompareOptions options = request.options;
  options.per_output = request.per_output.value_or(chosen.per_output);
  const FeatureNetwork features(request.features, request.feature_weights);
  const SplitImages images = load_splits(run.path(), request.data);
  Comparison got = compare_gan(run, pair, chosen, images, features, options, observer);
  for (const auto& w : got.warnings) observer.on_warning(w);
  got.table = comparison_markdown(got, options);
  write_file(run.file("compare/table.md"), got.table);
  return got;
}

}  // namespace hastings
