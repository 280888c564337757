// `hastings gan train`: a generator and its discriminator, trained into the folder of a run.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "hastings/run/gan_run.h"

namespace hastings {

struct GanTrainRunRequest {
  GanData data;        // with `resume` its spec is the run's folder, unless `output` is
  std::string output;  // folder; empty: runs/DATA-LOSS
  GanTrainRequest train;
  bool resume = false, overwrite = false;
  // With `resume`, what may differ from the stored request.
  std::optional<int> threads;
  bool other_end = false;  // epochs and iterations are those of `train`
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

struct GanTrainOutcome {
  std::string run;
  LossKind loss = LossKind::kArlb;
  GanTrained trained;
};

GanTrainOutcome gan_train(const GanTrainRunRequest& request, Observer& observer);

}  // namespace hastings
