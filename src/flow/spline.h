// The rational-quadratic spline, one element at a time: knots from raw parameters, value, log slope, derivatives.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "../core/lanes.h"
#include "../core/simd_math.h"
#include "hastings/flow/layers.h"

namespace hastings::spline {

constexpr double kMinBin = 1e-4;    // least share of a bin
constexpr double kMinSlope = 1e-3;  // least slope at a knot

// A number and its derivatives with respect to (x, x0, width, y0, height, slope0, slope1): eight lanes, so that
// one vector operation carries them all. Seven inputs; the last lane is free.
template <class T>
struct Dual {
  typedef T Lanes __attribute__((vector_size(8 * sizeof(T))));
  T v;
  Lanes d;
};
template <class T>
inline Dual<T> seed(T v, int lane) {
  Dual<T> a{v, {}};
  a.d[lane] = 1;
  return a;
}
template <class T>
inline Dual<T> operator+(const Dual<T>& a, const Dual<T>& b) {
  return {a.v + b.v, a.d + b.d};
}
template <class T>
inline Dual<T> operator-(const Dual<T>& a, const Dual<T>& b) {
  return {a.v - b.v, a.d - b.d};
}
template <class T>
inline Dual<T> operator*(const Dual<T>& a, const Dual<T>& b) {
  return {a.v * b.v, a.d * b.v + b.d * a.v};
}
template <class T>
inline Dual<T> operator/(const Dual<T>& a, const Dual<T>& b) {
  const T inverse = 1 / b.v, ratio = a.v * inverse;
  return {ratio, (a.d - b.d * ratio) * inverse};
}
template <class T>
inline Dual<T> log_of(const Dual<T>& a) {
  return {std::log(a.v), a.d * (1 / a.v)};
}
inline float log_of(float a) { return std::log(a); }
inline double log_of(double a) { return std::log(a); }

// Value and log slope inside one bin; N is a plain number or a Dual.
template <class N>
inline void inside(const N& x, const N& x0, const N& width, const N& y0, const N& height, const N& slope0,
                   const N& slope1, const N& one, N& y, N& log_slope) {
  const N xi = (x - x0) / width, rest = one - xi, mix = xi * rest, secant = height / width;
  const N bottom = secant + (slope1 + slope0 - secant - secant) * mix;
  y = y0 + height * (secant * xi * xi + slope0 * mix) / bottom;
  const N ratio = secant / bottom;
  log_slope = log_of((slope1 * xi * xi + secant * (mix + mix) + slope0 * rest * rest) * ratio * ratio);
}

// Solves for x in the bin that holds y (Durkan et al., equations 6 to 8).
template <class T>
inline T solve(T y, T x0, T width, T y0, T height, T slope0, T slope1) {
  const T secant = height / width, from = y - y0, bend = slope1 + slope0 - 2 * secant;
  const T a = height * (secant - slope0) + from * bend;
  const T b = height * slope0 - from * bend;
  const T c = -secant * from;
  const T root = std::sqrt(std::max<T>(b * b - 4 * a * c, 0));
  return x0 + width * std::clamp<T>(2 * c / (-b - root), 0, 1);
}

// Shares of the interval from n logits: softmax, but none below kMinBin. In place.
template <class T>
inline void to_shares(T* logit, int64_t n) {
  const T top = *std::max_element(logit, logit + n);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) logit[i] = std::exp(logit[i] - top);
  const T scale = (1 - static_cast<T>(kMinBin) * static_cast<T>(n)) / Lanes<T>::sum(logit, n);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) logit[i] = static_cast<T>(kMinBin) + scale * logit[i];
}

// softplus, shifted so that 0 gives slope 1; and its derivative.
template <class T>
inline T slope_of(T raw, T& derivative) {
  static const T shift = static_cast<T>(std::log(std::expm1(1 - kMinSlope)));
  const T u = raw + shift, e = std::exp(-std::fabs(u));
  derivative = (u > 0 ? T(1) : e) / (1 + e);
  return static_cast<T>(kMinSlope) + std::max<T>(u, 0) + std::log1p(e);
}

template <class T>
struct Bin {
  int64_t k;
  T x0, width, y0, height, slope0, slope1, derivative0, derivative1;
};

// The bin whose x side (y side if by_y) holds v; `shares` are widths, then heights, then raw slopes.
template <class T>
inline Bin<T> find_bin(T v, const T* shares, const SplineShape& shape, bool by_y) {
  const int64_t bins = shape.bins;
  const T *width = shares, *height = shares + bins, *raw_slope = shares + 2 * bins;
  const T scale = static_cast<T>(2 * shape.bound), *searched = by_y ? height : width;
  const T target = (v + static_cast<T>(shape.bound)) / scale;
  int64_t k = 0;
  T edge = 0;
  while (k + 1 < bins && edge + searched[k] <= target) edge += searched[k++];
  const T other = Lanes<T>::sum(by_y ? width : height, k);
  const T left = static_cast<T>(-shape.bound);
  Bin<T> bin{k,
             left + scale * (by_y ? other : edge),
             scale * width[k],
             left + scale * (by_y ? edge : other),
             scale * height[k],
             1,
             1,
             0,
             0};
  if (k > 0) bin.slope0 = slope_of(raw_slope[k - 1], bin.derivative0);
  if (k + 1 < bins) bin.slope1 = slope_of(raw_slope[k], bin.derivative1);
  return bin;
}

// What the derivative of one element needs; value[7] holds the bin, or -1 outside the spline's interval.
template <class T>
struct Tape {
  T value[8];
  T log_slope[8];
};
template <class T>
constexpr int64_t kTape = sizeof(Tape<T>) / sizeof(T);

// The tape of the forward map at x, turned into that of the inverse if asked: with f(x, t) = y fixed,
// dx/dy = 1/f', dx/dt = -f_t/f', and the inverse's log slope is -L(x(y, t), t).
template <class T>
inline void record_at(T x, const Bin<T>& bin, bool backwards, Tape<T>& tape) {
  Dual<T> y, log_slope;
  inside(seed(x, 0), seed(bin.x0, 1), seed(bin.width, 2), seed(bin.y0, 3), seed(bin.height, 4), seed(bin.slope0, 5),
         seed(bin.slope1, 6), Dual<T>{1, {}}, y, log_slope);
  if (backwards) {
    const T inverse = 1 / y.d[0], along = log_slope.d[0];
    auto dx = y.d * -inverse;
    dx[0] = inverse;
    auto dl = log_slope.d;
    dl[0] = 0;
    y.d = dx;
    log_slope.d = -(dl + dx * along);
  }
  for (int i = 0; i < 8; ++i) {
    tape.value[i] = y.d[i];
    tape.log_slope[i] = log_slope.d[i];
  }
  tape.value[5] *= bin.derivative0;
  tape.log_slope[5] *= bin.derivative0;
  tape.value[6] *= bin.derivative1;
  tape.log_slope[6] *= bin.derivative1;
  tape.value[7] = static_cast<T>(bin.k);
}

// Maps v and returns the log slope (of the direction taken); fills the tape if there is one.
template <class T>
inline T apply(T& v, const T* shares, const SplineShape& shape, bool backwards, Tape<T>* tape) {
  if (!(std::fabs(v) < static_cast<T>(shape.bound))) {  // outside, or NaN
    if (tape) tape->value[7] = -1;
    return 0;
  }
  const Bin<T> bin = find_bin(v, shares, shape, backwards);
  const T x = backwards ? solve(v, bin.x0, bin.width, bin.y0, bin.height, bin.slope0, bin.slope1) : v;
  T y, log_slope;
  inside<T>(x, bin.x0, bin.width, bin.y0, bin.height, bin.slope0, bin.slope1, 1, y, log_slope);
  if (tape) record_at(x, bin, backwards, *tape);
  v = backwards ? x : y;
  return backwards ? -log_slope : log_slope;
}

// dL/d(shares) -> dL/d(logits), by softmax's rule; an edge is the sum of the shares to its left.
template <class T>
inline void shares_to_logits(const T* shares, const T* edge, const T* size, int64_t bins, T scale, T* grad_logit) {
  T right = 0, mean = 0;
  for (int64_t b = bins; b-- > 0;) {
    const T own = scale * (size[b] + right);
    right += edge[b];
    grad_logit[b] = own;
    mean += own * (shares[b] - static_cast<T>(kMinBin));
  }
  mean /= 1 - static_cast<T>(kMinBin) * static_cast<T>(bins);
#pragma omp simd
  for (int64_t b = 0; b < bins; ++b) grad_logit[b] = (shares[b] - static_cast<T>(kMinBin)) * (grad_logit[b] - mean);
}

}  // namespace hastings::spline

namespace hastings {

// A layer of splines: its tape knows which way it went, so one map and one derivative serve both ways.
template <class T>
class SplineLayer : public Layer<T> {
 public:
  void forward(const T* params, T* x, double* log_det, int64_t n, Workspace<T>& work, bool record) const final {
    map(params, x, log_det, n, work, record, false);
  }
  void inverse(const T* params, T* x, double* log_det, int64_t n, Workspace<T>& work, bool record) const final {
    map(params, x, log_det, n, work, record, true);
  }
  void forward_derivative(const T* params, T* grad, const T* grad_log_det, int64_t n, Workspace<T>& work,
                          T* grad_params) const final {
    derivative(params, grad, grad_log_det, n, work, grad_params);
  }
  void inverse_derivative(const T* params, T* grad, const T* grad_log_det, int64_t n, Workspace<T>& work,
                          T* grad_params) const final {
    derivative(params, grad, grad_log_det, n, work, grad_params);
  }

 private:
  virtual void map(const T* params, T* x, double* log_det, int64_t n, Workspace<T>& work, bool record,
                   bool backwards) const = 0;
  virtual void derivative(const T* params, T* grad, const T* grad_log_det, int64_t n, Workspace<T>& work,
                          T* grad_params) const = 0;
};

}  // namespace hastings
