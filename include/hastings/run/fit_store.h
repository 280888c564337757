// Learning on its way: its state in a hidden folder of the run, so that a kill loses some seconds only.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "hastings/core/output_folder.h"
#include "hastings/learn/fit.h"

namespace hastings {

class FitStore final : public LearnStore {
 public:
  static constexpr const char* kFolder = ".fitting";

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

}  // namespace hastings
