// A run on disk: config.json, proposal.pt, history.csv, chain-N.csv, draws.npz, summary.json.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "hastings/diagnose/summary.h"
#include "hastings/learn/learner.h"
#include "hastings/sample/sampler.h"

namespace hastings {

void to_json(nlohmann::json& json, const FlowSpec& spec);
void from_json(const nlohmann::json& json, FlowSpec& spec);
void to_json(nlohmann::json& json, const FitOptions& options);
void to_json(nlohmann::json& json, const SampleOptions& options);
void to_json(nlohmann::json& json, const RunSummary& summary);

std::string version();  // of hastings

// What a fit left behind.
struct StoredFit {
  std::string target;  // its name
  FlowSpec flow;       // as resolved
  std::unique_ptr<Proposal> proposal;
  double learn_seconds = 0, learned_acceptance = 0;
  std::string config;  // config.json, as text
};

// True if there is a finished fit in the folder.
bool is_run(const std::string& folder);

// Writes the folder under another name and renames it: it is there complete or not at all. A run that is there already
// is replaced only when `replace` is set.
void save_fit(const std::string& folder, const Target& target, const FitOptions& options, const Fit& fit, bool replace);
StoredFit load_fit(const std::string& folder, int64_t dim);
std::string stored_target(const std::string& folder);

// Streams the draws of a sampling run into the folder; nothing is visible before finish().
class RunWriter final : public DrawSink {
 public:
  // At most `max_diagnosed` draws are read back for the diagnosis, so that its memory does not grow with the run.
  RunWriter(const std::string& folder, const Target& target, const SampleOptions& options,
            int64_t max_diagnosed = int64_t{1} << 22);
  ~RunWriter() override;
  void on_draws(const DrawBlock& block) override;

  // Draws of one parameter, [chains, diagnosed()], read back from disk; -1 log density, -2 acceptance, -3 log weight.
  // Of a chain that is longer, 64 runs of consecutive draws, evenly spread.
  Tensor column(int64_t parameter) const;
  int64_t diagnosed() const { return diagnosed_; }  // draws of each chain
  // Of all draws, whatever their number.
  void moments(int64_t parameter, double& mean, double& sd) const;
  std::vector<std::string> names() const { return names_; }

  // Makes everything visible: chains, draws.npz, summary.json.
  void finish(const SampleReport& report, const RunSummary& summary);

 private:
  struct Chain;
  std::string folder_, scratch_;
  SampleOptions options_;
  int64_t diagnosed_ = 0;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<Chain>> chains_;
  mutable Tensor cache_;  // [chains, columns, diagnosed] of the last columns read
  mutable int64_t cache_begin_ = -1;
};

// The summary of a finished sampling run: diagnosis of the stored draws and of the candidates' weights.
RunSummary summarise_run(const Target& target, const SampleOptions& options, const SampleReport& report,
                         const RunWriter& writer, const StoredFit& stored);

nlohmann::json load_summary(const std::string& folder);

}  // namespace hastings
