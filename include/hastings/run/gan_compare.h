// `hastings gan compare`: is a filtered GAN better than the plain one? Distances at equal numbers, over several seeds,
// with paired differences.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hastings/core/events.h"
#include "hastings/gan/filter/sample.h"
#include "hastings/gan/network/features.h"
#include "hastings/run/gan_run.h"

namespace hastings {

struct CompareOptions {
  int64_t outputs = 10000, per_output = 10;
  int seeds = 5;
  uint64_t first_seed = 1;
  int threads = 0;
  std::vector<std::string> rivals;  // protocols of Filter beside plain and the chosen one
  void validate() const;
};

// One protocol with one seed; the same seed means the same proposals.
struct CompareCell {
  std::string protocol;
  uint64_t seed = 0;
  double distance = 0, acceptance = 0, unique = 0, seconds = 0;
  int64_t longest_run = 0;
};

struct CompareRow {
  std::string protocol;
  double mean = 0, error = 0;                   // over seeds
  double difference = 0, difference_error = 0;  // from plain, paired by seed
  double low = 0, high = 0;                     // 95 % interval of the difference (Student's t)
  double acceptance = 0, unique = 0, seconds = 0;
};

struct Comparison {
  std::string features;  // name of the feature network
  double real = 0;       // real against real: the calibration split against the reference, at the same number
  int64_t real_count = 0;
  std::vector<CompareRow> rows;
  std::vector<CompareCell> cells;
  std::vector<std::string> warnings;
  std::string table;  // Markdown
};

// Finished cells are kept in `folder` and not computed again.
Comparison compare_gan(OutputFolder& run, const Pair& pair, const ChosenCalibration& chosen, const SplitImages& images,
                       const FeatureNetwork& features, const CompareOptions& options, Observer& observer);

std::string comparison_markdown(const Comparison& comparison, const CompareOptions& options);

struct GanCompareRequest {
  std::string run;
  std::string features, feature_weights;  // a feature network, and its weights where the JSON does not say
  std::string data;                       // where the run's data are now; empty: where they were
  std::optional<int64_t> per_output;      // nothing: as calibrated
  CompareOptions options;
};
// Also writes compare/table.md.
Comparison gan_compare(const GanCompareRequest& request, Observer& observer);

}  // namespace hastings
