// A run on disk: config.json, proposal.pt, history.csv, chain-N.csv, draws.npz, summary.json.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "hastings/core/output_folder.h"
#include "hastings/diagnose/summary.h"
#include "hastings/learn/fit.h"
#include "hastings/sample/sampler.h"

namespace hastings {

struct ChainRows;

void to_json(nlohmann::json& json, const RunSummary& summary);

std::string version();  // of hastings

// Learning on its way: its state in a hidden folder of the run, so that a kill loses some seconds only.
class FitStore final : public LearnStore {
 public:
  FitStore(OutputFolder& folder, const Target& target, const FitOptions& options, double every_seconds);
  bool due() override;
  void save(const std::map<std::string, Tensor>& state) override;
  std::map<std::string, Tensor> load() override;  // of the very same target and options
  bool stored() const;
  void remove();

  static bool exists(const std::string& folder);
  // What was being learned; ConfigError if nothing was.
  static void restore_options(const std::string& folder, std::string& target, FitOptions& options);

 private:
  OutputFolder& folder_;
  std::string identity_;
  double every_;
  std::chrono::steady_clock::time_point last_;
};

// What a fit left behind.
struct StoredFit {
  std::string target;  // its name
  FlowSpec flow;       // as resolved
  std::unique_ptr<Proposal> proposal;
  double learn_seconds = 0, learned_acceptance = 0, chain_acceptance = 0;
  std::string config;  // config.json, as text
};

// True if there is a finished fit in the folder.
bool is_run(const std::string& folder);

// A run is there when its proposal is: that comes last, and goes first where a run is replaced, with all its draws.
void save_fit(OutputFolder& folder, const Target& target, const FitOptions& options, const Fit& fit);
StoredFit load_fit(const std::string& folder, int64_t dim);
std::string stored_target(const std::string& folder);

// The draws of a finished run, read from draws.npz in ranges.
class StoredDraws {
 public:
  explicit StoredDraws(const std::string& folder);
  ~StoredDraws();
  int64_t chains() const { return chains_; }
  int64_t draws() const { return draws_; }    // of each chain
  int64_t warmup() const { return warmup_; }  // stored steps of the warm-up
  int64_t width() const { return static_cast<int64_t>(names_.size()); }
  const std::vector<std::string>& names() const { return names_; }

  // One of "draws", "lp", "accept_stat", "log_weight", each also as "warmup_...": [count, width or 1].
  Tensor read(const std::string& array, int64_t chain, int64_t first, int64_t count) const;

 private:
  struct Archive;
  std::unique_ptr<Archive> archive_;
  int64_t chains_ = 0, draws_ = 0, warmup_ = 0;
  std::vector<std::string> names_;
};

// What is asked of a sampling run beside its options.
struct SampleRequest {
  SampleOptions options;
  double target_ess = 0;   // go on until the least bulk ESS is this; 0: options.draws draws
  double max_seconds = 0;  // of sampling; 0: no limit
  bool save_warmup = false;
  double checkpoint_seconds = 5;  // how often the state is stored, so that a kill loses no more than that

  template <class Archive>
  void fields(Archive& a) {
    a("options", options);
    a("target_ess", target_ess);
    a("max_seconds", max_seconds);
    a("save_warmup", save_warmup);
  }
};

// Streams the draws of a sampling run into a hidden folder of the run; the run's own files change in finish(). What a
// killed run left there can be taken up again.
class RunWriter final : public DrawSink {
 public:
  // At most `max_diagnosed` draws are read back for the diagnosis, so that its memory does not grow with the run.
  RunWriter(OutputFolder& folder, const Target& target, const SampleRequest& request,
            int64_t max_diagnosed = int64_t{1} << 22);
  ~RunWriter() override;

  // One of the three comes first.
  void start();                                   // with no draws
  void continue_from(const StoredDraws& stored);  // with those of a finished run
  std::map<std::string, Tensor> take_up();        // with those an interrupted run of the very same request left
                                                  // behind: returns its state, or nothing if there is none

  void on_draws(const DrawBlock& block) override;
  void checkpoint(std::map<std::string, Tensor> state);

  // Draws of one output, [chains, diagnosed()], read back from disk; -1 log density, -2 acceptance, -3 log weight.
  // Of a chain that is longer, 64 runs of consecutive draws, evenly spread.
  Tensor column(int64_t output) const;
  int64_t draws() const;      // of each chain, as written
  int64_t diagnosed() const;  // those of them that column() reads
  // Of all draws, whatever their number.
  void moments(int64_t output, double& mean, double& sd) const;
  std::vector<std::string> names() const { return names_; }

  // Makes everything visible: chains, draws.npz, summary.json, and the state to go on from.
  void finish(const SampleReport& report, const RunSummary& summary, const std::map<std::string, Tensor>& state);

 private:
  struct Chain;
  struct Numbers;
  void open(const std::vector<std::vector<int64_t>>& rows);
  void append(const DrawBlock& block, const Tensor& outputs);
  void add_up(int chain, const Tensor& outputs);
  ChainRows read_rows(int chain, int64_t first, int64_t n) const;
  OutputFolder& folder_;
  std::string scratch_;
  const Target& target_;
  SampleRequest request_;
  int64_t max_diagnosed_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<Chain>> chains_;
  bool keep_scratch_ = false;
  mutable Tensor cache_;  // [chains, columns, diagnosed] of the last columns read
  mutable int64_t cache_begin_ = -1, cache_draws_ = -1;
};

// Runs the chains of a request into the folder, from the start or (`more` > 0) going on from the finished run there, or
// from where the same request was killed. Ends with what there is when the observer asks to stop.
struct Sampled {
  RunSummary summary;
  std::string stopped;       // draws | target-ess | max-seconds | interrupted
  int64_t resumed_from = 0;  // draws that were there already
};
Sampled sample_into(OutputFolder& folder, const Target& target, const StoredFit& stored, SampleRequest request,
                    int64_t more, Observer& observer);

// The request of the finished run, or of the one that was interrupted; ConfigError if there is none.
SampleRequest finished_request(const std::string& folder);
SampleRequest interrupted_request(const std::string& folder);

// draws.npz -> chain-N.csv or draws.nc (NetCDF as ArviZ's InferenceData); chain-N.csv -> draws.npz. Returns the files.
std::vector<std::string> convert_run(OutputFolder& folder, const std::string& to, const Target* target);

// A dictionary of tensors as one file, whole or not there.
void write_tensors(const std::string& path, const std::map<std::string, Tensor>& tensors);
std::map<std::string, Tensor> read_tensors(const std::string& path);

// The summary of a finished sampling run: diagnosis of the stored draws and of the candidates' weights.
RunSummary summarise_run(const Target& target, const SampleOptions& options, const SampleReport& report,
                         const RunWriter& writer, const StoredFit& stored);

nlohmann::json load_summary(const std::string& folder);

}  // namespace hastings
