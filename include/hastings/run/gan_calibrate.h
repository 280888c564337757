// `hastings gan calibrate`: a pair's scores become a density ratio, and how to sample with it is chosen.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "hastings/gan/calibrate/choose.h"
#include "hastings/run/gan_run.h"

namespace hastings {

struct GanCalibrateRequest {
  std::string pair;            // a run's folder, or a JSON file that describes a pair trained elsewhere
  std::string weights_folder;  // of such a pair; empty: beside its JSON
  std::string output;          // run folder for such a pair; empty: runs/NAME
  GanData data;
  std::set<std::string> given;  // options of the data that were given, by their long names
  CalibrateOptions options;
  // auto: classifiers of the labels of the training images; none; or a network's JSON, with its weights.
  std::string witness = "auto", witness_weights;
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

struct GanCalibrateOutcome {
  std::string run;
  ChosenCalibration chosen;
};

GanCalibrateOutcome gan_calibrate(const GanCalibrateRequest& request, Observer& observer);

}  // namespace hastings
