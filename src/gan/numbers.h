// Small things that calibration, choice and filter share.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <vector>

#include "hastings/core/random.h"

namespace hastings {

inline std::vector<double> to_vector(const at::Tensor& t) {
  const at::Tensor c = t.to(at::kDouble).contiguous();
  return {c.data_ptr<double>(), c.data_ptr<double>() + c.numel()};
}

// What the accept rule compares with.
inline void log_uniforms(Stream& stream, std::vector<double>& out) {
  stream.uniform(out);
  for (double& u : out) u = std::log(u);
}

// Columns brought to mean 0 and standard deviation 1; constant ones become 0.
struct Standardiser {
  at::Tensor mean, scale;  // [width]

  explicit Standardiser(const at::Tensor& rows) : mean(rows.mean(0)) {
    const at::Tensor sd = rows.std(0);
    scale = at::where(sd > 1e-6 * sd.max(), sd, at::full_like(sd, std::numeric_limits<double>::infinity()));
  }
  at::Tensor operator()(const at::Tensor& rows) const { return (rows - mean) / scale; }
};

}  // namespace hastings
