// The paper's experiments, one function each, on the library's public interface.
#pragma once

#include <algorithm>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "hastings/core/events.h"
#include "hastings/core/output_folder.h"
#include "hastings/learn/fit.h"
#include "hastings/report/figure.h"

namespace hastings::reproduce {

struct Options {
  std::string output = "reproduction";
  int seeds = 0;  // 0: five, with quick one
  uint64_t first_seed = 1;
  bool quick = false;
  std::vector<std::string> only;  // targets, methods; empty: all
  int threads = 0;
  std::string from;  // a cells.json of an earlier run: what is in it is not computed again
  std::string data;  // folder with uci/german.data-numeric, uci/heart.dat and uci/australian.dat
};

// What a piece of work may use: its share of the cores, and whom it tells.
struct Share {
  int threads;
  Observer& observer;
};
struct Job {
  std::string what;
  std::function<void(const Share&)> run;
};

inline bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class Context;

struct Experiment {
  std::string name, what, cost;
  std::vector<std::vector<std::string>>
      axes;  // its parts, each along one axis (targets, methods): what `only` may name
  std::function<void(Context&)> run;
};

// Where an experiment keeps what it has: finished cells, tables, figures.
class Context {
 public:
  // A name in `only` that none of the experiment's axes has is a ConfigError.
  Context(const Experiment& experiment, const Options& options, Observer& observer,
          std::function<void(const std::string&)> tell);

  const Options& options() const { return options_; }
  Observer& observer() { return observer_; }
  Share all_cores() const { return {options_.threads, observer_}; }
  // What `only` leaves of an axis; of one that it does not name, everything.
  const std::vector<std::string>& chosen(size_t axis) const { return chosen_.at(axis); }
  // Runs the jobs, as many at a time as there are cores, one core each; a single job has them all.
  void run(const std::vector<Job>& jobs);
  // Finished cells: a kill loses at most the one under way. A damaged file is as good as none.
  std::optional<nlohmann::json> find(const std::string& key) const;
  void keep(const std::string& key, const nlohmann::json& cell);
  // All of them, also what came from Options::from, in one file, cells.json.
  void gather();
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string cell_file(const std::string& key) const { return path("cells/" + key + ".json"); }
  void write(const std::string& name, const std::string& text);  // and tells where
  void figure(const std::string& name, const Figure& figure);
  void tell(const std::string& line);

 private:
  Options options_;
  std::vector<std::vector<std::string>> chosen_;
  std::string name_;
  OutputFolder folder_;
  nlohmann::json known_ = nlohmann::json::object();
  Observer& observer_;
  std::function<void(const std::string&)> tell_;
  std::mutex telling_;
};

Experiment semimetric();
Experiment rejection();
Experiment toy();
Experiment correlation();
Experiment proposals();
Experiment random_walk();
Experiment exact_filter();
Experiment table1();
const std::vector<Experiment>& experiments();

// The paper's network, learned by one objective, as in its section 5.1; settings are the same for every target, but
// that variational inference goes slowly where there are `modes`.
FitOptions paper_settings(const std::string& objective, bool modes, uint64_t seed, bool quick);

}  // namespace hastings::reproduce
