// Batched L-BFGS: every row is a problem of its own, all rows share each evaluation of the density. core/lbfgs.h is for
// one convex function from one start; log densities need not be concave, so that a row may fail here and stay.
#include <ATen/ATen.h>

#include <deque>

#include "hastings/learn/start.h"

namespace hastings {
namespace {

struct Pair {
  Tensor s, y, rho;  // [n, dim], [n, dim], [n, 1]; rho = 0 switches a row's pair off
};

Tensor row_dot(const Tensor& a, const Tensor& b) { return (a * b).sum(-1, true); }

// -H g by the two-loop recursion, row by row.
Tensor direction(const Tensor& gradient, const std::deque<Pair>& memory) {
  Tensor q = gradient;
  std::vector<Tensor> alpha(memory.size());
  for (size_t i = memory.size(); i-- > 0;) {
    alpha[i] = memory[i].rho * row_dot(memory[i].s, q);
    q = q - alpha[i] * memory[i].y;
  }
  if (!memory.empty()) {
    const Pair& last = memory.back();
    const Tensor gamma = row_dot(last.s, last.y) / row_dot(last.y, last.y).clamp_min(1e-300);
    q = q * at::where(at::gt(last.rho, 0), gamma, at::ones_like(gamma));
  }
  for (size_t i = 0; i < memory.size(); ++i) {
    q = q + memory[i].s * (alpha[i] - memory[i].rho * row_dot(memory[i].y, q));
  }
  return -q;
}

}  // namespace

Tensor climb(const Target& target, const Tensor& from, int64_t max_iterations) {
  constexpr size_t kMemory = 10;
  Tensor x = from.clone();
  Gradient here = target.with_gradient(x);
  Tensor f = (-here.log_prob).unsqueeze(1), g = -here.gradient;  // minimised
  std::deque<Pair> memory;
  int quiet = 0;  // iterations in a row in which no row gained anything
  for (int64_t iteration = 0; iteration < max_iterations; ++iteration) {
    Tensor p = direction(g, memory);
    // Not downhill: fall back to the gradient. First steps have at most unit length.
    const Tensor downhill = at::lt(row_dot(p, g), 0);
    p = at::where(downhill, p, -g);
    if (memory.empty()) p = p / p.norm(2, -1, true).clamp_min(1.0);
    const Tensor slope = row_dot(p, g);
    // Armijo by halving, each row its own step.
    Tensor step = at::ones_like(f), done = at::zeros_like(f, at::kBool);
    Tensor best_x = x, best_f = f, best_g = g;
    for (int halving = 0; halving < 25 && !done.all().item<bool>(); ++halving) {
      const Tensor trial = x + step * p;
      const Gradient there = target.with_gradient(trial);
      const Tensor trial_f = (-there.log_prob).unsqueeze(1);
      const Tensor good = at::logical_and(
          at::logical_not(done), at::logical_and(at::isfinite(trial_f), at::le(trial_f, f + 1e-4 * step * slope)));
      best_x = at::where(good, trial, best_x);
      best_f = at::where(good, trial_f, best_f);
      best_g = at::where(good, -there.gradient, best_g);
      done = at::logical_or(done, good);
      step = step * 0.5;
    }
    const Tensor s = best_x - x, y = best_g - g, curvature = row_dot(s, y);
    const Tensor usable = at::gt(curvature, 1e-12 * row_dot(y, y));
    memory.push_back({s, y, at::where(usable, 1 / curvature, at::zeros_like(curvature))});
    if (memory.size() > kMemory) memory.pop_front();
    const double gain = (f - best_f).nan_to_num(0).max().item<double>();
    x = best_x;
    f = best_f;
    g = best_g;
    quiet = gain < 1e-9 ? quiet + 1 : 0;
    if (quiet == 3) break;
  }
  return x;
}

}  // namespace hastings
