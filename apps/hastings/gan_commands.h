// What `hastings gan ...` and `hastings data ...` do, one function a command; each returns the exit code.
#pragma once

#include <string>

#include "hastings/gan/choose.h"
#include "hastings/gan/gan_run.h"
#include "hastings/gan/sample.h"
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
  bool resume = false, overwrite = false;
  // calibrate
  std::string pair, weights_folder;
  CalibrateOptions calibration;
  std::string witness = "auto", witness_weights;
  // sample
  FilterOptions filter;
  bool pictures = false;
  int threads = 0;
  // compare
  CompareOptions comparison;
  std::string features, feature_weights;
  // what was given rather than left to its default
  bool data_given = false, protocol_given = false, per_output_given = false;
  bool new_end = false;  // of a training
};

int fetch_command(const GanOptions& o);
int train_command(const GanOptions& o);
int calibrate_command(const GanOptions& o);
int sample_command(const GanOptions& o);
int compare_command(const GanOptions& o);

}  // namespace hastings::app
