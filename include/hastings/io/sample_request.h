// What is asked of a sampling run beside its options.
#pragma once

#include "hastings/sample/sampler.h"

namespace hastings {

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

}  // namespace hastings
