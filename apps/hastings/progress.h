// The observer of the command line: a bar on a terminal, plain lines otherwise, nothing with --quiet.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "hastings/core/events.h"

namespace hastings::app {

class Progress final : public Observer {
 public:
  explicit Progress(bool quiet);
  ~Progress() override;
  void on_learn(const LearnProgress& p) override;
  void on_sample(const SampleProgress& p) override;
  void on_summary() override;
  void on_warning(const std::string& text) override;
  bool should_stop() override;
  void done();  // ends a bar, so that what follows starts on a line of its own

 private:
  void show(const std::string& line, bool last);
  bool quiet_, terminal_;
  bool open_ = false;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point last_{};
  std::chrono::steady_clock::time_point sampling_since_{};
  std::vector<int64_t> chain_done_;
};

}  // namespace hastings::app
