// Splines whose parameters do not depend on the point: one for each coordinate, and one for the radius.
#include <cstring>

#include "spline.h"

namespace hastings {
namespace {

using spline::kTape;
using spline::Tape;

constexpr double kRate = 5;  // these few parameters may move faster than a network's weights

// Shares of one spline, made once a pass.
template <class T>
const T* shares_of(const T* raw, const SplineShape& shape, Workspace<T>& work) {
  T* shares = work.push(shape.parameters());
  std::memcpy(shares, raw, static_cast<size_t>(shape.parameters()) * sizeof(T));
  spline::to_shares(shares, shape.bins);
  spline::to_shares(shares + shape.bins, shape.bins);
  return shares;
}

// Turns grad[i] (and the log slope's share of grad_log_det) into dL/d(input) and adds dL/d(raw).
template <class T>
void spline_derivative(const T* shares, const Tape<T>* tape, T* grad, const T* grad_log_det, int64_t n,
                       const SplineShape& shape, Workspace<T>& work, T* grad_raw) {
  const int64_t bins = shape.bins;
  T* sums = work.push(5 * bins);  // edge_x, width, edge_y, height, raw slopes
  std::fill(sums, sums + 5 * bins, T(0));
  for (int64_t i = 0; i < n; ++i) {
    if (tape[i].value[7] < 0) continue;
    T d[7];
    for (int l = 0; l < 7; ++l) d[l] = grad[i] * tape[i].value[l] + grad_log_det[i] * tape[i].log_slope[l];
    const auto k = static_cast<int64_t>(tape[i].value[7]);
    for (int l = 0; l < 4; ++l) sums[l * bins + k] += d[l + 1];
    if (k > 0) sums[4 * bins + k - 1] += d[5];
    if (k + 1 < bins) sums[4 * bins + k] += d[6];
    grad[i] = d[0];
  }
  T* logits = work.push(bins);
  const T scale = static_cast<T>(2 * shape.bound);
  for (int side = 0; side < 2; ++side) {
    spline::shares_to_logits(shares + side * bins, sums + 2 * side * bins, sums + (2 * side + 1) * bins, bins, scale,
                             logits);
    for (int64_t b = 0; b < bins; ++b) grad_raw[side * bins + b] += logits[b];
  }
  for (int64_t b = 0; b + 1 < bins; ++b) grad_raw[2 * bins + b] += sums[4 * bins + b];
  work.pop();
  work.pop();
}

template <class T>
class MarginalSplines final : public SplineLayer<T> {
 public:
  MarginalSplines(Parameters<T>& parameters, const std::string& name, int64_t dim, const SplineShape& shape)
      : dim_(dim), shape_(shape), raw_(parameters.add(name + "raw", {dim, shape.parameters()}, true, kRate)) {}

 private:
  void map(const T* params, T* x, double* log_det, int64_t n, Workspace<T>& work, bool record,
           bool backwards) const override {
    auto* tape = record ? reinterpret_cast<Tape<T>*>(work.push(dim_ * n * kTape<T>)) : nullptr;
    for (int64_t j = 0; j < dim_; ++j) {
      const T* shares = shares_of(params + raw_ + j * shape_.parameters(), shape_, work);
      for (int64_t i = 0; i < n; ++i) {
        log_det[i] += static_cast<double>(
            spline::apply(x[j * n + i], shares, shape_, backwards, tape ? tape + j * n + i : nullptr));
      }
      work.pop();
    }
  }
  void derivative(const T* params, T* grad, const T* grad_log_det, int64_t n, Workspace<T>& work,
                  T* grad_params) const override {
    const auto* tape = reinterpret_cast<const Tape<T>*>(work.peek(0));
    for (int64_t j = 0; j < dim_; ++j) {
      const int64_t at = raw_ + j * shape_.parameters();
      const T* shares = shares_of(params + at, shape_, work);
      spline_derivative(shares, tape + j * n, grad + j * n, grad_log_det, n, shape_, work, grad_params + at);
      work.pop();
    }
    work.pop();
  }
  int64_t dim_;
  SplineShape shape_;
  int64_t raw_;
};

template <class T>
class Radial final : public SplineLayer<T> {
 public:
  Radial(Parameters<T>& parameters, const std::string& name, int64_t dim, int64_t bins)
      : dim_(dim),
        shape_{bins, radial_bound(dim)},
        raw_(parameters.add(name + "raw", {shape_.parameters()}, true, kRate)) {}

 private:
  static constexpr T kTiny = static_cast<T>(1e-12);

  // The spline lives on [-bound, bound], the radius on [0, 2 bound].
  void map(const T* params, T* x, double* log_det, int64_t n, Workspace<T>& work, bool record,
           bool backwards) const override {
    T* radius = work.push(2 * n);  // r, then g(r)
    T* input = record ? work.push(dim_ * n) : nullptr;
    auto* tape = record ? reinterpret_cast<Tape<T>*>(work.push(n * kTape<T>)) : nullptr;
    if (record) std::memcpy(input, x, static_cast<size_t>(dim_ * n) * sizeof(T));
    radii(x, radius, n);
    const T* shares = shares_of(params + raw_, shape_, work);
    const T bound = static_cast<T>(shape_.bound);
    T* ratio = work.push(n);
    for (int64_t i = 0; i < n; ++i) {
      T v = radius[i] - bound;
      log_det[i] += static_cast<double>(spline::apply(v, shares, shape_, backwards, tape ? tape + i : nullptr));
      radius[n + i] = std::max(v + bound, kTiny);
      ratio[i] = radius[n + i] / radius[i];
    }
    for (int64_t i = 0; i < n; ++i)
      log_det[i] += static_cast<double>(dim_ - 1) * std::log(static_cast<double>(ratio[i]));
    for (int64_t j = 0; j < dim_; ++j) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) x[j * n + i] *= ratio[i];
    }
    work.pop();
    work.pop();
    if (!record) work.pop();
  }

  // y = x g/r, log det = L(r) + (d-1)(log g - log r). With c = sum_j grad_j x_j:
  // dL/dg = c / r + (d-1) gl / g, through the spline to dL/dr, and directly dL/dr = -c g / r^2 - (d-1) gl / r;
  // dL/dx_j = grad_j g / r + dL/dr x_j / r.
  void derivative(const T* params, T* grad, const T* grad_log_det, int64_t n, Workspace<T>& work,
                  T* grad_params) const override {
    const auto* tape = reinterpret_cast<const Tape<T>*>(work.peek(0));
    const T *x = work.peek(1), *r = work.peek(2), *g = r + n;
    const T more = static_cast<T>(dim_ - 1);
    T* along = work.push(n);
    T* through = work.push(n);
    std::fill(along, along + n, T(0));
    for (int64_t j = 0; j < dim_; ++j) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) along[i] += grad[j * n + i] * x[j * n + i];
    }
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) through[i] = along[i] / r[i] + more * grad_log_det[i] / g[i];
    const T* shares = shares_of(params + raw_, shape_, work);
    spline_derivative(shares, tape, through, grad_log_det, n, shape_, work, grad_params + raw_);
    work.pop();
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      through[i] = (through[i] - along[i] * g[i] / (r[i] * r[i]) - more * grad_log_det[i] / r[i]) / r[i];
    }
    for (int64_t j = 0; j < dim_; ++j) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) grad[j * n + i] = grad[j * n + i] * g[i] / r[i] + through[i] * x[j * n + i];
    }
    for (int i = 0; i < 5; ++i) work.pop();
  }

  void radii(const T* x, T* radius, int64_t n) const {
    std::fill(radius, radius + n, T(0));
    for (int64_t j = 0; j < dim_; ++j) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) radius[i] += x[j * n + i] * x[j * n + i];
    }
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) radius[i] = std::max(std::sqrt(radius[i]), kTiny);
  }

  int64_t dim_;
  SplineShape shape_;
  int64_t raw_;
};

}  // namespace

double radial_bound(int64_t dim) { return std::sqrt(static_cast<double>(dim)) + 3.0; }

double spline_raw_slope(double slope) {
  const double above = std::max(slope - spline::kMinSlope, 1e-6);  // softplus(raw + shift)
  return above + std::log(-std::expm1(-above)) - std::log(std::expm1(1 - spline::kMinSlope));
}

template <class T>
std::unique_ptr<Layer<T>> make_marginal_splines(Parameters<T>& parameters, const std::string& name, int64_t dim,
                                                const SplineShape& shape) {
  return std::make_unique<MarginalSplines<T>>(parameters, name, dim, shape);
}
template <class T>
std::unique_ptr<Layer<T>> make_radial(Parameters<T>& parameters, const std::string& name, int64_t dim, int64_t bins) {
  return std::make_unique<Radial<T>>(parameters, name, dim, bins);
}

template std::unique_ptr<Layer<float>> make_marginal_splines(Parameters<float>&, const std::string&, int64_t,
                                                             const SplineShape&);
template std::unique_ptr<Layer<double>> make_marginal_splines(Parameters<double>&, const std::string&, int64_t,
                                                              const SplineShape&);
template std::unique_ptr<Layer<float>> make_radial(Parameters<float>&, const std::string&, int64_t, int64_t);
template std::unique_ptr<Layer<double>> make_radial(Parameters<double>&, const std::string&, int64_t, int64_t);

}  // namespace hastings
