// What `hastings gan ...` and `hastings data ...` do, one function a command; each returns the exit code.
#pragma once

#include <set>
#include <string>

#include "hastings/gan/calibrate/choice_file.h"
#include "hastings/gan/calibrate/choose.h"
#include "hastings/gan/filter/sample.h"
#include "hastings/gan/gan_run.h"
#include "hastings/score/compare.h"

namespace hastings::app {

struct GanOptions {
  bool json = false, quiet = false;
  // data fetch
  std::string data_set, to, from;
  // all of gan
  GanData data;
  std::string folder;
  // train
  GanTrainRequest request;
  std::string loss = "arlb";
  bool resume = false, overwrite = false;
  // calibrate
  std::string pair, weights_folder;
  CalibrateOptions calibration;
  std::string calibrated_method = "auto", calibrated_protocol = "auto";
  std::string witness = "auto", witness_weights;
  // sample
  FilterOptions filter;
  std::string protocol;
  uint64_t filter_seed = 1;
  bool pictures = false;
  int threads = 0;
  // compare
  CompareOptions comparison;
  std::string features, feature_weights;
  std::set<std::string> given;  // options by their long names, those not left to their defaults
};

int fetch_command(const GanOptions& o);
int train_command(const GanOptions& o);
int calibrate_command(const GanOptions& o);
int sample_command(const GanOptions& o);
int compare_command(const GanOptions& o);

}  // namespace hastings::app
