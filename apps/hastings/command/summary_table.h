// The table that `sample` and `summary` print.
#pragma once

#include "hastings/diagnose/summary.h"

namespace hastings::app {

void print_summary(const RunSummary& summary);

}  // namespace hastings::app
