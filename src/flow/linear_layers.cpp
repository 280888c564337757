// Affine map and rotation.
#include <ATen/ATen.h>

#include <cmath>
#include <cstring>

#include "blas.h"
#include "hastings/flow/layers.h"

namespace hastings {
namespace {

template <class T>
class Affine final : public Layer<T> {
 public:
  Affine(Parameters<T>& parameters, const std::string& name, int64_t dim, bool full)
      : dim_(dim),
        full_(full),
        shift_(parameters.add(name + "shift", {dim})),
        log_diagonal_(parameters.add(name + "log_diagonal", {dim})),
        lower_(full ? parameters.add(name + "lower", {dim, dim}) : 0) {}

  void forward(const T* params, T* x, double* log_det, int64_t n, Workspace<T>& work, bool record) const override {
    add_log_det(params, log_det, n, 1);
    T* in = work.push(dim_ * n);
    std::memcpy(in, x, bytes(n));
    if (full_) {
      T* l = matrix(params, work);
      gemm(Op::kNone, Op::kNone, dim_, n, dim_, l, dim_, in, n, T(0), x, n);
      work.pop();
    } else {
      for (int64_t j = 0; j < dim_; ++j) scale_row(x + j * n, std::exp(params[log_diagonal_ + j]), n);
    }
    for (int64_t j = 0; j < dim_; ++j) shift_row(x + j * n, params[shift_ + j], n);
    if (!record) work.pop();
  }

  void inverse(const T* params, T* x, double* log_det, int64_t n, Workspace<T>& work, bool record) const override {
    add_log_det(params, log_det, n, -1);
    for (int64_t j = 0; j < dim_; ++j) shift_row(x + j * n, -params[shift_ + j], n);
    if (full_) {
      T* l = matrix(params, work);
      solve_lower(Op::kNone, dim_, n, l, x);
      work.pop();
    } else {
      for (int64_t j = 0; j < dim_; ++j) scale_row(x + j * n, std::exp(-params[log_diagonal_ + j]), n);
    }
    if (record) std::memcpy(work.push(dim_ * n), x, bytes(n));  // the output is what the derivative needs
  }

  void forward_derivative(const T* params, T* grad, const T* grad_log_det, int64_t n, Workspace<T>& work,
                          T* grad_params) const override {
    const T* in = work.pop();
    work.push(dim_ * n);
    add_parameter_gradient(params, grad, in, n, T(1), grad_log_det, work, grad_params);
    if (full_) {
      T* out = work.push(dim_ * n);
      std::memcpy(out, grad, bytes(n));
      T* l = matrix(params, work);
      gemm(Op::kTranspose, Op::kNone, dim_, n, dim_, l, dim_, out, n, T(0), grad, n);
      work.pop();
      work.pop();
    } else {
      for (int64_t j = 0; j < dim_; ++j) scale_row(grad + j * n, std::exp(params[log_diagonal_ + j]), n);
    }
    work.pop();
  }

  // x = L^-1 (y - b): dL/dy = L^-T g; the gradients of L and b are minus those of the forward map at (x, dL/dy).
  void inverse_derivative(const T* params, T* grad, const T* grad_log_det, int64_t n, Workspace<T>& work,
                          T* grad_params) const override {
    const T* out = work.pop();
    work.push(dim_ * n);
    if (full_) {
      T* l = matrix(params, work);
      solve_lower(Op::kTranspose, dim_, n, l, grad);
      work.pop();
    } else {
      for (int64_t j = 0; j < dim_; ++j) scale_row(grad + j * n, std::exp(-params[log_diagonal_ + j]), n);
    }
    add_parameter_gradient(params, grad, out, n, T(-1), grad_log_det, work, grad_params);
    work.pop();
  }

 private:
  size_t bytes(int64_t n) const { return static_cast<size_t>(dim_ * n) * sizeof(T); }

  static void scale_row(T* row, T factor, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) row[i] *= factor;
  }
  static void shift_row(T* row, T by, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) row[i] += by;
  }

  void add_log_det(const T* params, double* log_det, int64_t n, double sign) const {
    double sum = 0;
    for (int64_t j = 0; j < dim_; ++j) sum += static_cast<double>(params[log_diagonal_ + j]);
    for (int64_t i = 0; i < n; ++i) log_det[i] += sign * sum;
  }

  T* matrix(const T* params, Workspace<T>& work) const {
    T* l = work.push(dim_ * dim_);
    for (int64_t i = 0; i < dim_; ++i) {
      for (int64_t j = 0; j < dim_; ++j) {
        l[i * dim_ + j] = j < i ? params[lower_ + i * dim_ + j] : (j == i ? std::exp(params[log_diagonal_ + i]) : T(0));
      }
    }
    return l;
  }

  // dL/dL_ij = sign sum_n g_i x_j on and below the diagonal, dL/db = sign sum_n g.
  void add_parameter_gradient(const T* params, const T* grad, const T* x, int64_t n, T sign, const T* grad_log_det,
                              Workspace<T>& work, T* grad_params) const {
    const T log_det_sum = Lanes<T>::sum(grad_log_det, n);
    T* outer = work.push(full_ ? dim_ * dim_ : dim_);
    if (full_) gemm(Op::kNone, Op::kTranspose, dim_, dim_, n, grad, n, x, n, T(0), outer, dim_);
    for (int64_t j = 0; j < dim_; ++j) {
      const T shift = Lanes<T>::sum(grad + j * n, n);
      T own = 0;
      if (full_) {
        own = outer[j * dim_ + j];
        for (int64_t k = 0; k < j; ++k) grad_params[lower_ + j * dim_ + k] += sign * outer[j * dim_ + k];
      } else {
        own = Lanes<T>::dot(grad + j * n, x + j * n, n);
      }
      grad_params[shift_ + j] += sign * shift;
      grad_params[log_diagonal_ + j] += sign * (own * std::exp(params[log_diagonal_ + j]) + log_det_sum);
    }
    work.pop();
  }

  int64_t dim_;
  bool full_;
  int64_t shift_, log_diagonal_, lower_;
};

template <class T>
class Rotation final : public Layer<T> {
 public:
  Rotation(Parameters<T>& parameters, const std::string& name, int64_t dim, Stream& random)
      : dim_(dim), matrix_(parameters.add(name + "matrix", {dim, dim}, /*trainable=*/false)) {
    const Tensor q = std::get<0>(at::linalg_qr(random.normal({dim, dim}))).contiguous();
    for (int64_t i = 0; i < dim * dim; ++i) {
      parameters.values[static_cast<size_t>(matrix_ + i)] = static_cast<T>(q.data_ptr<double>()[i]);
    }
  }
  void forward(const T* params, T* x, double*, int64_t n, Workspace<T>& work, bool) const override {
    turn(params, Op::kNone, x, n, work);
  }
  void inverse(const T* params, T* x, double*, int64_t n, Workspace<T>& work, bool) const override {
    turn(params, Op::kTranspose, x, n, work);
  }
  void forward_derivative(const T* params, T* grad, const T*, int64_t n, Workspace<T>& work, T*) const override {
    turn(params, Op::kTranspose, grad, n, work);
  }
  void inverse_derivative(const T* params, T* grad, const T*, int64_t n, Workspace<T>& work, T*) const override {
    turn(params, Op::kNone, grad, n, work);
  }

 private:
  void turn(const T* params, Op op, T* x, int64_t n, Workspace<T>& work) const {
    T* in = work.push(dim_ * n);
    std::memcpy(in, x, static_cast<size_t>(dim_ * n) * sizeof(T));
    gemm(op, Op::kNone, dim_, n, dim_, params + matrix_, dim_, in, n, T(0), x, n);
    work.pop();
  }
  int64_t dim_, matrix_;
};

}  // namespace

template <class T>
std::unique_ptr<Layer<T>> make_affine(Parameters<T>& parameters, const std::string& name, int64_t dim, bool full) {
  return std::make_unique<Affine<T>>(parameters, name, dim, full);
}
template <class T>
std::unique_ptr<Layer<T>> make_rotation(Parameters<T>& parameters, const std::string& name, int64_t dim,
                                        Stream& random) {
  return std::make_unique<Rotation<T>>(parameters, name, dim, random);
}

template std::unique_ptr<Layer<float>> make_affine(Parameters<float>&, const std::string&, int64_t, bool);
template std::unique_ptr<Layer<double>> make_affine(Parameters<double>&, const std::string&, int64_t, bool);
template std::unique_ptr<Layer<float>> make_rotation(Parameters<float>&, const std::string&, int64_t, Stream&);
template std::unique_ptr<Layer<double>> make_rotation(Parameters<double>&, const std::string&, int64_t, Stream&);

}  // namespace hastings
