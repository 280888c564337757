// From a Stan program to a shared object, once.
#pragma once

#include <string>

#include "hastings/target/user.h"

namespace hastings {

// Path of the compiled model, in the cache (XDG_CACHE_HOME or ~/.cache, hastings/stan). The key is the generated C++,
// the flags and the compiler: whatever changes the result makes a new entry.
std::string compile_stan(const std::string& model, const StanOptions& options);

extern const char* const kStanBridge;  // source of stan_bridge.cc

}  // namespace hastings
