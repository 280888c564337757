// Numbers, texts and histories as tensors, by name: the state of learning on its way to disk and back.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "hastings/core/error.h"
#include "hastings/core/events.h"

namespace hastings {

using State = std::map<std::string, at::Tensor>;

inline const at::Tensor& in_state(const State& state, const std::string& name) {
  const auto found = state.find(name);
  if (found == state.end()) throw DataError("the stored state of learning has no '" + name + "'");
  return found->second;
}

inline void put(State& state, const std::string& name, const std::vector<double>& v) {
  state[name] = at::tensor(v, at::kDouble);
}
inline std::vector<double> get_doubles(const State& state, const std::string& name) {
  const at::Tensor t = in_state(state, name).contiguous();
  return {t.data_ptr<double>(), t.data_ptr<double>() + t.numel()};
}

inline void put(State& state, const std::string& name, const std::vector<int64_t>& v) {
  state[name] = at::tensor(v, at::kLong);
}
inline std::vector<int64_t> get_integers(const State& state, const std::string& name) {
  const at::Tensor t = in_state(state, name).contiguous();
  return {t.data_ptr<int64_t>(), t.data_ptr<int64_t>() + t.numel()};
}

inline void put(State& state, const std::string& name, const std::string& text) {
  put(state, name, std::vector<int64_t>(text.begin(), text.end()));
}
inline std::string get_text(const State& state, const std::string& name) {
  const auto codes = get_integers(state, name);
  return {codes.begin(), codes.end()};
}

inline void put(State& state, const std::string& name, const std::vector<LearnProgress>& history) {
  std::vector<double> numbers;
  std::string phases;
  for (const auto& r : history) {
    phases += r.phase + "\n";
    numbers.insert(numbers.end(),
                   {static_cast<double>(r.iteration), static_cast<double>(r.max_iterations), r.loss, r.acceptance,
                    r.acceptance_bound, r.beta, r.learning_rate, r.seconds, r.max_seconds});
  }
  put(state, name + ".numbers", numbers);
  put(state, name + ".phases", phases);
}
inline std::vector<LearnProgress> get_history(const State& state, const std::string& name) {
  std::vector<LearnProgress> history;
  const auto n = get_doubles(state, name + ".numbers");
  const std::string phases = get_text(state, name + ".phases");
  size_t at = 0;
  for (size_t i = 0; i + 9 <= n.size(); i += 9) {
    const size_t end = phases.find('\n', at);
    history.push_back({phases.substr(at, end - at), static_cast<int64_t>(n[i]), static_cast<int64_t>(n[i + 1]),
                       n[i + 2], n[i + 3], n[i + 4], n[i + 5], n[i + 6], n[i + 7], n[i + 8]});
    at = end + 1;
  }
  return history;
}

}  // namespace hastings
