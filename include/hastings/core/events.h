// What a long task tells the outside. The base class does nothing; the command line derives a
// progress bar from it. Calls may come from several threads during sampling: implementations lock.
#pragma once

#include <cstdint>
#include <string>

namespace hastings {

// One line of the learning history.
struct LearnProgress {
  std::string phase;  // "anneal", "arlb", "ar", "vi"
  int64_t iteration = 0;
  int64_t max_iterations = 0;
  double loss = 0;
  double acceptance = 0;        // windowed estimate of the acceptance rate
  double acceptance_bound = 0;  // 1 - sqrt(symmetric KL / 2), windowed
  double beta = 1;              // inverse temperature of the target
  double learning_rate = 0;
  double seconds = 0;      // since learning began
  double max_seconds = 0;  // 0: no limit

  template <class Archive>
  void fields(Archive& a) {
    a("phase", phase);
    a("iteration", iteration);
    a("max_iterations", max_iterations);
    a("loss", loss);
    a("acceptance", acceptance);
    a("acceptance_bound", acceptance_bound);
    a("beta", beta);
    a("learning_rate", learning_rate);
    a("seconds", seconds);
    a("max_seconds", max_seconds);
  }
};

struct SampleProgress {
  int chain = 0, chains = 1;
  int64_t done = 0;   // of this chain
  int64_t total = 0;  // of each chain
  double acceptance = 0;
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_learn(const LearnProgress&) {}
  virtual void on_sample(const SampleProgress&) {}
  virtual void on_summary() {}  // all draws are there; what follows is their diagnosis
  virtual void on_warning(const std::string&) {}
  // Asked between steps; true ends the task with `Interrupted`.
  virtual bool should_stop() { return false; }
};

}  // namespace hastings
