// The draws of a finished run, read from draws.npz in ranges.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hastings/core/tensor.h"

namespace hastings {

class StoredDraws {
 public:
  explicit StoredDraws(const std::string& folder);
  ~StoredDraws();
  int64_t chains() const { return chains_; }
  int64_t draws() const { return draws_; }    // of each chain
  int64_t warmup() const { return warmup_; }  // stored steps of the warm-up
  int64_t width() const { return static_cast<int64_t>(names_.size()); }
  const std::vector<std::string>& names() const { return names_; }

  // One of "draws", "lp", "accept_stat", "log_weight", each also as "warmup_...": [count, width or 1].
  Tensor read(const std::string& array, int64_t chain, int64_t first, int64_t count) const;

 private:
  struct Archive;
  std::unique_ptr<Archive> archive_;
  int64_t chains_ = 0, draws_ = 0, warmup_ = 0;
  std::vector<std::string> names_;
};

}  // namespace hastings
