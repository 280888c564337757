// The triangular layer of lowest degree that can carry skewness: y_i = u(x_i) e^{s_i} + t_i, where s_i is linear and
// t_i quadratic in the coordinates before i, and u bends the axis itself:
//   u(x) = sinh(asinh x + e) - sinh e = c x + h (sqrt(1 + x^2) - 1),   c = cosh e, h = sinh e.
#include <cmath>
#include <cstring>

#include "../core/simd_math.h"
#include "blas.h"
#include "hastings/flow/layers.h"

namespace hastings {
namespace {

template <class T>
class Bend final : public Layer<T> {
 public:
  Bend(Parameters<T>& parameters, const std::string& name, int64_t dim, double max_log_scale)
      : dim_(dim),
        cap_(static_cast<T>(max_log_scale)),
        skew_(parameters.add(name + "skew", {dim})),
        slope_(parameters.add(name + "slope", {pairs(dim - 1)})),
        square_(parameters.add(name + "square", {(dim - 1) * dim * (dim + 1) / 6})) {}

  void forward(const T* params, T* x, double* log_det, int64_t n, Workspace<T>& work, bool record) const override {
    T* saved = record ? work.push(3 * dim_ * n) : nullptr;  // the point before, e^s, ds/draw
    T* product = work.push(pairs(dim_ - 1) * n);            // x_j x_k, k <= j
    if (record) std::memcpy(saved, x, static_cast<size_t>(dim_ * n) * sizeof(T));
    for (int64_t j = 0; j + 1 < dim_; ++j) multiply(x, j, n, product);
    T* row = work.push(2 * n);
    for (int64_t i = dim_; i-- > 0;) {  // the last first: the coordinates before i are still there
      conditions(params, x, product, i, n, row);
      map<false>(params[skew_ + i], x + i * n, row, log_det, n, saved ? saved + (dim_ + i) * n : nullptr);
    }
    work.pop();
    if (!record) work.pop();
  }

  void inverse(const T* params, T* x, double* log_det, int64_t n, Workspace<T>& work, bool record) const override {
    T* saved = record ? work.push(3 * dim_ * n) : nullptr;  // the point before, e^-s, ds/draw
    T* product = work.push(pairs(dim_ - 1) * n);
    T* row = work.push(2 * n);
    for (int64_t i = 0; i < dim_; ++i) {
      conditions(params, x, product, i, n, row);
      map<true>(params[skew_ + i], x + i * n, row, log_det, n, saved ? saved + (dim_ + i) * n : nullptr);
      if (i + 1 < dim_) multiply(x, i, n, product);
    }
    work.pop();
    if (record) {
      std::memcpy(saved, x, static_cast<size_t>(dim_ * n) * sizeof(T));
    } else {
      work.pop();
    }
  }

  void forward_derivative(const T* params, T* grad, const T* grad_log_det, int64_t n, Workspace<T>& work,
                          T* grad_params) const override {
    derivative<false>(params, grad, grad_log_det, n, work, grad_params);
  }
  void inverse_derivative(const T* params, T* grad, const T* grad_log_det, int64_t n, Workspace<T>& work,
                          T* grad_params) const override {
    derivative<true>(params, grad, grad_log_det, n, work, grad_params);
  }

 private:
  static int64_t pairs(int64_t m) { return m * (m + 1) / 2; }  // (j, k), k <= j < m
  const T* slopes(const T* params, int64_t i) const { return params + slope_ + pairs(i - 1); }
  const T* squares(const T* params, int64_t i) const { return params + square_ + (i - 1) * i * (i + 1) / 6; }

  static void multiply(const T* x, int64_t j, int64_t n, T* product) {
    const T* a = x + j * n;
    for (int64_t k = 0; k <= j; ++k) {
      const T* b = x + k * n;
      T* to = product + (pairs(j) + k) * n;
#pragma omp simd
      for (int64_t p = 0; p < n; ++p) to[p] = a[p] * b[p];
    }
  }

  // row = raw s_i, then t_i.
  void conditions(const T* params, const T* x, const T* product, int64_t i, int64_t n, T* row) const {
    std::fill(row, row + 2 * n, T(0));
    if (i == 0) return;
    scaled_rows(Op::kNone, 1, n, i, slopes(params, i), i, x, n, T(1), row, n);
    scaled_rows(Op::kNone, 1, n, pairs(i), squares(params, i), pairs(i), product, n, T(1), row + n, n);
  }

  // One coordinate; row holds its raw s, then t.
  template <bool kBackwards>
  void map(T skew, T* x, const T* row, double* log_det, int64_t n, T* saved) const {
    if (saved) {
      map_row<kBackwards, true>(skew, x, row, row + n, log_det, n, saved, saved + dim_ * n);
    } else {
      map_row<kBackwards, false>(skew, x, row, row + n, log_det, n, nullptr, nullptr);
    }
  }
  template <bool kBackwards, bool kRecord>
  void map_row(T skew, T* x, const T* raw, const T* t, double* log_det, int64_t n, T* scales, T* bends) const {
    const T c = std::cosh(skew), h = std::sinh(skew), cap = cap_, inverse_cap = 1 / cap;
#pragma omp simd
    for (int64_t p = 0; p < n; ++p) {
      const T bent = std::tanh(raw[p] * inverse_cap), s = cap * bent, e = std::exp(kBackwards ? -s : s);
      const T w = kBackwards ? (x[p] - t[p]) * e + h : x[p], r = std::sqrt(1 + w * w);
      const T z = kBackwards ? c * w - h * r : w, r_z = kBackwards ? std::sqrt(1 + z * z) : r;
      const T log_slope = std::log(c + h * z / r_z);
      x[p] = kBackwards ? z : (c * w + h * (r - 1)) * e + t[p];
      log_det[p] += static_cast<double>(kBackwards ? -s - log_slope : s + log_slope);
      if constexpr (kRecord) {
        scales[p] = e;
        bends[p] = 1 - bent * bent;
      }
    }
  }

  template <bool kBackwards>
  void derivative(const T* params, T* grad, const T* grad_log_det, int64_t n, Workspace<T>& work,
                  T* grad_params) const {
    const T *product = work.peek(0), *z = work.peek(1), *scales = z + dim_ * n, *bends = scales + dim_ * n;
    const int64_t count = pairs(dim_ - 1);
    T* gz = work.push(dim_ * n);  // dL/dz
    if (kBackwards) {
      std::memcpy(gz, grad, static_cast<size_t>(dim_ * n) * sizeof(T));
    } else {
      std::fill(gz, gz + dim_ * n, T(0));
    }
    T* gp = work.push(count * n);  // dL/d(products)
    std::fill(gp, gp + count * n, T(0));
    T* row = work.push(3 * n);
    for (int64_t i = dim_; i-- > 0;) {  // all that came after i has given its share by now
      if (i + 1 < dim_) fold(z, i, n, gp, gz);
      T *gs = row, *gt = row + n, *ge = row + 2 * n;
      element<kBackwards>(params[skew_ + i], z + i * n, scales + i * n, bends + i * n, grad_log_det, grad + i * n,
                          gz + i * n, gs, gt, ge, n);
      grad_params[skew_ + i] += Lanes<T>::sum(ge, n);
      if (i == 0) continue;
      spread(slopes(params, i), i, z, gs, gz, grad_params + (slopes(params, i) - params), n);
      spread(squares(params, i), pairs(i), product, gt, gp, grad_params + (squares(params, i) - params), n);
    }
    if (!kBackwards) std::memcpy(grad, gz, static_cast<size_t>(dim_ * n) * sizeof(T));
    for (int k = 0; k < 5; ++k) work.pop();
  }

  // out = sum_m a_m rows_m, given dL/dout: adds dL/da and dL/drows.
  static void spread(const T* a, int64_t count, const T* rows, const T* g, T* grad_rows, T* grad_a, int64_t n) {
    for (int64_t m = 0; m < count; ++m) {
      const T factor = a[m];
      T* to = grad_rows + m * n;
#pragma omp simd
      for (int64_t p = 0; p < n; ++p) to[p] += factor * g[p];
      grad_a[m] += Lanes<T>::dot(rows + m * n, g, n);
    }
  }

  // The products of coordinate i with itself and those before it give their gradients to the coordinates.
  static void fold(const T* z, int64_t i, int64_t n, const T* gp, T* gz) {
    const T* own = z + i * n;
    T* to = gz + i * n;
    for (int64_t k = 0; k <= i; ++k) {
      const T *g = gp + (pairs(i) + k) * n, *other = z + k * n;
      T* back = gz + k * n;
      if (k == i) {
#pragma omp simd
        for (int64_t p = 0; p < n; ++p) to[p] += 2 * g[p] * own[p];
      } else {
#pragma omp simd
        for (int64_t p = 0; p < n; ++p) {
          to[p] += g[p] * other[p];
          back[p] += g[p] * own[p];
        }
      }
    }
  }

  // One coordinate. u_z = c + h z/r, l = log u_z, r = sqrt(1 + z^2); subscripts are derivatives. Going back,
  // w = u(z) = (x - t) e^-s and z = u^-1(w): dz/dw = 1/u_z, dz/de = -u_e/u_z.
  template <bool kBackwards>
  static void element(T skew, const T* z, const T* scale, const T* bend, const T* gl, T* grad, T* gz, T* gs, T* gt,
                      T* ge, int64_t n) {
    const T c = std::cosh(skew), h = std::sinh(skew);
#pragma omp simd
    for (int64_t p = 0; p < n; ++p) {
      const T r = std::sqrt(1 + z[p] * z[p]), u = c * z[p] + h * (r - 1), inverse = 1 / (c + h * z[p] / r);
      const T l_z = h / (r * r * r) * inverse, u_e = h * z[p] + c * (r - 1), l_e = (h + c * z[p] / r) * inverse;
      if (kBackwards) {
        const T g = gz[p], gw = (g - gl[p] * l_z) * inverse;
        gs[p] = (-gw * u - gl[p]) * bend[p];
        gt[p] = -gw * scale[p];
        ge[p] = -gw * u_e - gl[p] * l_e;
        grad[p] = gw * scale[p];
      } else {
        const T g = grad[p] * scale[p];
        gs[p] = (g * u + gl[p]) * bend[p];
        gt[p] = grad[p];
        ge[p] = g * u_e + gl[p] * l_e;
        gz[p] += g / inverse + gl[p] * l_z;
      }
    }
  }

  int64_t dim_;
  T cap_;
  int64_t skew_, slope_, square_;
};

}  // namespace

template <class T>
std::unique_ptr<Layer<T>> make_bend(Parameters<T>& parameters, const std::string& name, int64_t dim,
                                    double max_log_scale) {
  return std::make_unique<Bend<T>>(parameters, name, dim, max_log_scale);
}

template std::unique_ptr<Layer<float>> make_bend(Parameters<float>&, const std::string&, int64_t, double);
template std::unique_ptr<Layer<double>> make_bend(Parameters<double>&, const std::string&, int64_t, double);

}  // namespace hastings
