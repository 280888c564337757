// Densities that users bring: TorchScript source or modules, shared objects, Stan programs.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "hastings/target/target.h"

namespace hastings {

// A few lines of TorchScript:
//   def log_prob(x: Tensor, y: Tensor) -> Tensor:      # x is [batch, dim], the result [batch]
// A JSON file of the same name beside it (model.py, model.json) says what x is:
//   {"dim": 3}  or  {"parameters": ["mu", {"name": "tau", "constraint": "positive"}, {"name": "theta", "size": 8}],
//                    "data": {"y": "y.csv", "sigma": [15, 10]}, "dtype": "double"}
// Constraints: positive, lower (with "low"), upper ("high"), interval (both), simplex, ordered. Data are arguments of
// the function, by name: npy, npz:NAME or CSV files (FILE.csv:COLUMN for one column), relative to the JSON, or numbers;
// {"file": FILE, "type": "int"} for indices.
std::unique_ptr<Target> make_script_target(const std::string& path);

// A saved TorchScript module with `log_prob` or `forward`, of the same arguments, and the same JSON (or an attribute
// `dim`). Runs in the precision of its parameters.
std::unique_ptr<Target> make_module_target(const std::string& path);

// A shared object with the functions of hastings/plugin.h.
std::unique_ptr<Target> make_plugin_target(const std::string& path);

struct StanOptions {
  std::string data;       // JSON file; empty: the program has none
  std::string toolchain;  // folder; empty: $HASTINGS_STAN, CmdStan, BridgeStan, or what scripts/setup --stan unpacked
  std::function<void(const std::string&)> tell;  // what takes time
};

// MODEL.stan, compiled once and kept; or MODEL.so, a model that BridgeStan built. Sampled in unconstrained coordinates;
// the outputs are parameters, transformed parameters and generated quantities.
std::unique_ptr<Target> make_stan_target(const std::string& path, const StanOptions& options);

}  // namespace hastings
