// The files of a sampling run while it goes on.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hastings/core/output_folder.h"
#include "hastings/io/stored_draws.h"
#include "hastings/io/stored_summary.h"
#include "hastings/sample/sampler.h"

namespace hastings {

struct ChainRows;

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

}  // namespace hastings
